"""When the start of a worker that serves is over, and when its engine may be told to end once a stop is asked for.
Members of a group that do not serve are in follower.py."""

import time

from modelfleet_worker import starting
from modelfleet_worker.drain import Drain
from modelfleet_worker.failure import Failure
from modelfleet_worker.gate_state import Board
from modelfleet_worker.start_outlook import Phase
from modelfleet_worker.state import Progress


class Server:
    """Serves; drains before it ends. One that never served ends at once."""

    def __init__(self, first_token: starting.FirstToken, drain: Drain, board: Board, progress: Progress) -> None:
        self._first_token, self._drain, self._board, self._progress = first_token, drain, board, progress

    @property
    def waits_for(self) -> str:
        """What a start has not done yet, as a clause."""
        return self._first_token.waits_for

    async def started(self) -> None:
        """Returns when the start is over. Raises NotServedError if it never will be."""
        await self._first_token.healthy()
        self._progress.enter(Phase.FIRST_TOKEN, time.monotonic())
        await self._first_token.generated()

    def fault(self, log: str) -> Failure | None:
        """What is wrong with an engine that started; `log` are its last lines."""
        return None if self._board.read().gates else starting.ungated(log)

    async def finished(self, *, served: bool) -> None:
        """Returns when the engine may be told to end, after a stop was asked for. `served`: the start was over."""
        if served:
            await self._drain.run()
