"""What a worker's part sees around it, in a folder of a test: a gate, a drain and a start that has just begun."""

from pathlib import Path

from modelfleet_worker.drain import Drain
from modelfleet_worker.engine_api import EngineApi
from modelfleet_worker.gate_state import Board
from modelfleet_worker.parts import Around
from modelfleet_worker.plan import Limits, Plan
from modelfleet_worker.state import Progress

_LIMITS = Limits(start_deadline_s=1, drain_s=1, propagation_s=1)
_PLAN = Plan(revision="1", model_path="/m", served_names=("m",), python=None, args=(), env={}, limits=_LIMITS)


def around_in(folder: Path) -> Around:
    """The surroundings of a worker that starts at zero on a test's clock, with its files in `folder`."""
    board = Board(folder / "gate")
    return Around(
        plan=_PLAN,
        runtime=folder,
        promise=folder / "promise.json",
        termination_log=folder / "log",
        scratch=folder / "scratch",
        board=board,
        drain=Drain(board, _LIMITS),
        progress=Progress(0.0),
        api=EngineApi(1, ""),
    )
