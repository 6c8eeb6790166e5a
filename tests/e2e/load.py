"""Steady load on a Service from inside the network: `load.py URL MODEL SECONDS [PAUSE]`; ends when its input does.

PAUSE: seconds between two requests of one of the clients (default: none).

Prints one JSON object: the number of answers, and what went wrong with each other request.
"""

import json
import sys
import threading
import time
import urllib.request

CLIENTS = 4


def client(plan: tuple[str, str, float, float], stop: threading.Event, results: list[str]) -> None:
    """One request after the other, each on a connection of its own. `plan`: URL, model, when to end, pause."""
    url, model, ends_s, pause_s = plan
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": "x"}], "max_tokens": 20}).encode()
    while not stop.is_set() and time.monotonic() < ends_s:
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                json.load(response)
                results.append("")
        except (OSError, ValueError) as error:
            results.append(f"{type(error).__name__}: {error}")
            time.sleep(0.1)
        stop.wait(pause_s)


def main(url: str, model: str, seconds: float, pause_s: float = 0.0) -> None:
    """Runs the clients until the time is over or standard input ends."""
    results: list[str] = []
    stop = threading.Event()
    shared = ((url, model, time.monotonic() + seconds, pause_s), stop, results)
    threads = [threading.Thread(target=client, args=shared) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    stop.set()
    for thread in threads:
        thread.join()
    print(json.dumps({"answered": results.count(""), "failed": [result for result in results if result]}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(float, sys.argv[3:]))
