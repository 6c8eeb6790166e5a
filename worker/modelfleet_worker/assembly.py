"""Which parts a worker has, in the order in which they check before a start and explain an end."""

import os
import sys

from modelfleet_worker import engine_version, preflight
from modelfleet_worker.compiled_part import CompiledPart
from modelfleet_worker.drain_entrance import DrainEntrance
from modelfleet_worker.failure import Failure
from modelfleet_worker.goodput_part import GoodputPart
from modelfleet_worker.health import Health
from modelfleet_worker.hold_part import HoldPart
from modelfleet_worker.memory import Memory
from modelfleet_worker.parts import Around, Part
from modelfleet_worker.plan import Plan
from modelfleet_worker.start_progress import StartProgress
from modelfleet_worker.waiting import in_thread

ENGINE_PYTHON_VARIABLE = "MODELFLEET_ENGINE_PYTHON"  # set by images in which our packages have a Python of their own


def engine_python(plan: Plan) -> str:
    """The interpreter that runs the engine: the plan's, the image's, or our own."""
    return plan.python or os.environ.get(ENGINE_PYTHON_VARIABLE) or sys.executable


def parts(around: Around) -> tuple[Part, ...]:
    """All parts of a worker."""
    return (
        _Files(around.plan),
        Memory(around.plan, around.progress, around.termination_log, around.board.folder),
        *((CompiledPart(around, around.plan.compiled, engine_python(around.plan)),) if around.plan.compiled else ()),
        StartProgress(around),
        DrainEntrance(around.drain, around.board, around.plan.limits.drain_token_sha256),
        Health(around),
        HoldPart(around.board),
        GoodputPart(around),
    )


def check_files(plan: Plan) -> Failure | None:
    """Why no engine should be started with the files that are there. Blocks, perhaps for good."""
    python = engine_python(plan)
    return preflight.check(plan, python) or engine_version.check(plan, python)


class _Files(Part):
    """A model that can be read, an interpreter, and an engine of the plan's version."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    async def check(self) -> Failure | None:
        # In a thread: a volume that does not answer must not keep the loop from hearing SIGTERM.
        return await in_thread(check_files, self._plan)
