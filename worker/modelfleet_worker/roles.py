"""What a worker is in its replica: the leader, which serves, or a follower, which lends its devices to the leader's
engine. A role says when a start is over and when, once a stop is asked for, the engine may be told to end."""

import logging
import time
from typing import Protocol

from modelfleet_worker import starting
from modelfleet_worker.drain import Drain
from modelfleet_worker.failure import Failure
from modelfleet_worker.gate_state import Board
from modelfleet_worker.start_outlook import Phase
from modelfleet_worker.state import Progress

_log = logging.getLogger(__name__)


class Role(Protocol):
    """`engine_may_end`: once a stop is asked for, an engine that ends by itself is no failure."""

    engine_may_end: bool

    @property
    def waits_for(self) -> str:
        """What a start has not done yet, as a clause."""

    async def started(self) -> None:
        """Returns when the start is over. Raises NotServedError if it never will be."""

    def fault(self, log: str) -> Failure | None:
        """What is wrong with an engine that started; `log` are its last lines."""

    async def finished(self, *, served: bool) -> None:
        """Returns when the engine may be told to end, after a stop was asked for. `served`: the start was over."""


class Leader:
    """Serves; drains before it ends. A leader that never served ends at once."""

    engine_may_end = False

    def __init__(self, first_token: starting.FirstToken, drain: Drain, board: Board, progress: Progress) -> None:
        self._first_token, self._drain, self._board, self._progress = first_token, drain, board, progress

    @property
    def waits_for(self) -> str:
        return self._first_token.waits_for

    async def started(self) -> None:
        await self._first_token.healthy()
        self._progress.enter(Phase.FIRST_TOKEN, time.monotonic())
        await self._first_token.generated()

    def fault(self, log: str) -> Failure | None:
        return None if self._board.read().gates else starting.ungated(log)

    async def finished(self, *, served: bool) -> None:
        if served:
            await self._drain.run()
