"""The part that follows a start: what it hears counts when it is said, however short the phase is."""

import asyncio
from pathlib import Path

from modelfleet_worker.start_outlook import Phase
from modelfleet_worker.start_progress import StartProgress
from worker_around import around_in


async def test_a_phase_that_is_over_before_the_file_is_written_again_is_measured(tmp_path: Path) -> None:
    around = around_in(tmp_path)
    part, progress = StartProgress(around), around.progress
    await asyncio.to_thread(part.heard, "CPU KV cache size: 1,024 tokens")  # the engine's reader is a thread
    await asyncio.sleep(0)
    progress.enter(Phase.FIRST_TOKEN, 10.0**9)
    assert set(progress.phases_s(10.0**9)) == {Phase.PREFLIGHT, Phase.WARM_UP, Phase.FIRST_TOKEN}
