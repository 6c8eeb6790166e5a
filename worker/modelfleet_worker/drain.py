"""The steps of a drain: arrivals are served and their connections closed, then refused, and what runs is finished."""

import asyncio
import logging

from modelfleet_worker.gate_state import Board, Mode
from modelfleet_worker.plan import Limits
from modelfleet_worker.waiting import first

_SETTLE_S = 0.1
_log = logging.getLogger(__name__)


class Drain:
    """The drain of one worker, as its gate carries it out."""

    def __init__(self, board: Board, limits: Limits) -> None:
        self._board, self._limits = board, limits

    async def run(self) -> None:
        """Returns when nothing is in flight, or when `drain_s` after the last arrival was let in."""
        limits = self._limits
        _log.info("draining: arrivals are served for %g s more", limits.propagation_s)
        self._board.set_mode(Mode.CLOSE)
        await asyncio.sleep(limits.propagation_s)
        self._board.set_mode(Mode.REFUSE)
        _log.info("draining: %d in flight, arrivals are refused", self._board.read().in_flight)
        if await first(limits.drain_s, self._idle()) is None:
            _log.warning("%d requests are cut off after %g s", self._board.read().in_flight, limits.drain_s)

    async def _idle(self) -> None:
        """Returns when nothing is in flight, seen twice: a gate may just have read the old mode and not counted yet."""
        idle = 0
        while idle < 2:
            idle = 0 if self._board.read().in_flight else idle + 1
            await asyncio.sleep(_SETTLE_S)
