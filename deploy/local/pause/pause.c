/* The process that holds a pod's namespaces: sleeps, reaps what pods with a shared process namespace leave, ends when told. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void quit(int number) { (void)number; _exit(0); }

static void reap(int number) {
    (void)number;
    while (waitpid(-1, NULL, WNOHANG) > 0) {}
}

int main(void) {
    struct sigaction end = {.sa_handler = quit}, child = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP};
    sigaction(SIGINT, &end, NULL);
    sigaction(SIGTERM, &end, NULL);
    sigaction(SIGCHLD, &child, NULL);
    for (;;) pause();
}
