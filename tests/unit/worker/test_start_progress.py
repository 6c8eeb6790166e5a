"""The part that follows a start: what it hears counts when it is said, however short the phase is."""

import asyncio
from pathlib import Path

from modelfleet_worker.drain import Drain
from modelfleet_worker.engine_api import EngineApi
from modelfleet_worker.gate_state import Board
from modelfleet_worker.parts import Around
from modelfleet_worker.plan import Limits, Plan
from modelfleet_worker.start_outlook import Phase
from modelfleet_worker.start_progress import StartProgress
from modelfleet_worker.state import Progress

LIMITS = Limits(start_deadline_s=1, drain_s=1, propagation_s=1)
PLAN = Plan(revision="1", model_path="/m", served_names=("m",), python=None, args=(), env={}, limits=LIMITS)


async def test_a_phase_that_is_over_before_the_file_is_written_again_is_measured(tmp_path: Path) -> None:
    board, progress = Board(tmp_path / "gate"), Progress(0.0)
    part = StartProgress(
        Around(
            plan=PLAN,
            runtime=tmp_path,
            promise=tmp_path / "promise.json",
            termination_log=tmp_path / "log",
            scratch=tmp_path / "scratch",
            board=board,
            drain=Drain(board, LIMITS),
            progress=progress,
            api=EngineApi(1, ""),
        )
    )
    await asyncio.to_thread(part.heard, "CPU KV cache size: 1,024 tokens")  # the engine's reader is a thread
    await asyncio.sleep(0)
    progress.enter(Phase.FIRST_TOKEN, 10.0**9)
    assert set(progress.phases_s(10.0**9)) == {Phase.PREFLIGHT, Phase.WARM_UP, Phase.FIRST_TOKEN}
