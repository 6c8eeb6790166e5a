"""The program `modelfleet-worker`: holds signals back, then runs the command. Imports nothing that takes time."""

import signal
import sys
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status 0 after a drain that was asked for or a report, else 1 with the reason in the termination log."""
    # A signal before its handler stands would kill the worker, or, were it process 1, be lost; and what the commands
    # import takes a second on a busy node.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    from modelfleet_worker import commands

    return commands.run(argv)


if __name__ == "__main__":
    sys.exit(main())
