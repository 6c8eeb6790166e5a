"""Waiting for a condition, with a reason when it does not come."""

import time
from collections.abc import Callable

from modelfleet_local.errors import LocalClusterError

_PAUSE_S = 0.1
_PATIENCE = 0.02
"""Of the time so far, added to a pause: asking (often by kubectl) takes processor time that a slow start needs."""


def wait_until(
    what: str, done: Callable[[], bool], *, timeout_s: float, check: Callable[[], None] = lambda: None
) -> None:
    """Returns when `done` is true; `check` may raise in between (a process ended).

    Raises LocalClusterError after `timeout_s`.
    """
    began_s = time.monotonic()
    while not done():
        check()
        waited_s = time.monotonic() - began_s
        if waited_s > timeout_s:
            raise LocalClusterError(f"{what} did not come within {timeout_s:.0f} s")
        time.sleep(_PAUSE_S + _PATIENCE * waited_s)
