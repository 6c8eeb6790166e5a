"""The steps of a drain: arrivals are served and their connections closed, then refused, and what runs is finished.

A drain has two entrances. SIGTERM goes through all steps. Whoever chose this worker (the operator, which has taken the
label off that Services select) may take the first steps before, one by one, and back again while nothing is refused.
"""

import asyncio
import logging
import time

from modelfleet_worker.gate_state import Board, Mode
from modelfleet_worker.plan import Limits
from modelfleet_worker.waiting import first

_SETTLE_S = 0.1
_log = logging.getLogger(__name__)


class Drain:
    """The drain of one worker, as its gate carries it out."""

    def __init__(self, board: Board, limits: Limits) -> None:
        self._board, self._limits = board, limits
        self.mode = Mode.SERVE
        self._since_s = 0.0

    def enter(self, mode: Mode) -> None:
        """Takes effect for the next arrival. The same mode again changes nothing."""
        if mode is self.mode:
            return
        _log.info("arrivals: %s; %d in flight", _DOES[mode], self._board.read().in_flight)
        self.mode, self._since_s = mode, time.monotonic()
        self._board.set_mode(mode)

    async def run(self) -> None:
        """Returns when nothing is in flight, or when `drain_s` after the last arrival was let in.

        Steps that were taken before count: arrivals whose connections have been closed for the propagation time are
        refused at once.
        """
        if self.mode is not Mode.REFUSE:
            self.enter(Mode.CLOSE)
            await asyncio.sleep(max(0.0, self._since_s + self._limits.propagation_s - time.monotonic()))
            self.enter(Mode.REFUSE)
        idle = await first(self._limits.drain_s, self._idle()) is not None
        if not idle and (left := self._board.read().in_flight):
            _log.warning("%d requests are cut off after %g s", left, self._limits.drain_s)

    async def _idle(self) -> None:
        """Returns when nothing is in flight, seen twice: a gate may just have read the old mode and not counted yet."""
        idle = 0
        while idle < 2:
            idle = 0 if self._board.read().in_flight else idle + 1
            await asyncio.sleep(_SETTLE_S)


_DOES = {
    Mode.SERVE: "served",
    Mode.CLOSE: "served, and their connections closed",
    Mode.REFUSE: "refused with 503",
}
