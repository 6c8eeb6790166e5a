"""What stands around an engine besides its life: parts that check before it starts, add to how it is started, watch
while it runs, add to the status page and explain its end. The supervisor knows them by this class alone."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web
from prometheus_client.core import Metric

from modelfleet_worker.drain import Drain
from modelfleet_worker.engine_api import EngineApi
from modelfleet_worker.failure import Failure
from modelfleet_worker.gate_state import Board
from modelfleet_worker.plan import Plan
from modelfleet_worker.state import Progress


@dataclass(frozen=True, kw_only=True)
class Around:
    """What a part may know of its worker. `runtime` is a folder in memory that lives as long as the pod; `promise` is
    the operator's promise.json, which need not be there; `termination_log` is what is read of us when we are gone;
    `scratch` is the only folder that the engine may write to."""

    plan: Plan
    runtime: Path
    promise: Path
    termination_log: Path
    scratch: Path
    board: Board
    drain: Drain
    progress: Progress
    api: EngineApi


@dataclass(frozen=True, kw_only=True)
class Equipment:
    """Added to the engine's command line, before what the supervisor sets itself, and to its environment."""

    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


class Part:
    """One responsibility beside the engine's life. A method does nothing until a part overrides it.

    An exception out of a part is a bug: out of `check` and `equip` it ends the worker, out of the others it is logged
    with its traceback and the worker goes on serving without that part; `watch` is called again after a while.
    """

    async def check(self) -> Failure | None:
        """Why no engine should be started; None if nothing speaks against it. Cancelled when a stop is asked for."""
        return None

    def equip(self, code: Path) -> Equipment:
        """What the engine is given. `code` is the folder on the engine's PYTHONPATH; a part may put files there."""
        return Equipment()

    def heard(self, line: str) -> None:
        """One line of the engine's output as it came. Called in the thread that reads it: be quick, touch no loop."""

    async def watch(self) -> Failure:
        """Runs beside the engine, from its start until it is told to end, and is then cancelled.

        To return is to say that the engine is of no use any more: the worker ends with that failure.
        """
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    async def hear_out(self) -> None:
        """The engine ended and nobody had asked: a moment to wait for what explains it. Its processes still run out."""

    async def took_back(self, failure: Failure) -> bool:
        """The engine ended while it started, for this reason, and is gone. True: this part had given it something that
        may be why, has taken it back, and another start is worth it."""
        return False

    async def explain(self, failure: Failure) -> Failure:
        """A better account of an end that nobody asked for, from what this part saw; or the given one.

        Called when all processes of the engine are gone, with the account of the parts before this one. To be bounded
        to some seconds: a kubelet does not wait for long.
        """
        return failure

    def routes(self) -> Iterable[web.RouteDef]:
        """Paths of its own on the status port."""
        return ()

    def released(self) -> None:
        """Nothing is in flight any more, and the engine is about to be told to end."""

    async def close(self, failure: Failure | None) -> None:
        """The worker ends, with this failure or as it was asked to. Called however far it had come."""

    def metrics(self) -> Iterable[Metric]:
        """Families for the worker's own metrics page."""
        return ()
