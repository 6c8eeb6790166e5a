"""Waiting for a condition, with a reason when it does not come."""

import time
from collections.abc import Callable

from modelfleet_local.errors import LocalClusterError

_PAUSE_S = 0.1


def wait_until(
    what: str, done: Callable[[], bool], *, timeout_s: float, check: Callable[[], None] = lambda: None
) -> None:
    """Returns when `done` is true; `check` may raise in between (a process ended).

    Raises LocalClusterError after `timeout_s`.
    """
    deadline_s = time.monotonic() + timeout_s
    while not done():
        check()
        if time.monotonic() > deadline_s:
            raise LocalClusterError(f"{what} did not come within {timeout_s:.0f} s")
        time.sleep(_PAUSE_S)
