"""The part that follows a start: what it hears counts when it is said, however short the phase is."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

from modelfleet_worker.start_outlook import Phase
from modelfleet_worker.start_progress import StartProgress
from modelfleet_worker.starting import FirstToken
from modelfleet_worker.state import Progress, State
from worker_around import around_in


async def test_a_phase_that_is_over_before_the_file_is_written_again_is_measured(tmp_path: Path) -> None:
    around = around_in(tmp_path)
    part, progress = StartProgress(around), around.progress
    await asyncio.to_thread(part.heard, "CPU KV cache size: 1,024 tokens")  # the engine's reader is a thread
    await asyncio.sleep(0)
    progress.enter(Phase.FIRST_TOKEN, 10.0**9)
    assert set(progress.phases_s(10.0**9)) == {Phase.PREFLIGHT, Phase.WARM_UP, Phase.FIRST_TOKEN}


def test_a_second_engine_s_start_is_measured_by_itself() -> None:
    progress = Progress(0.0)
    for at_s, phase in ((1.0, Phase.BOOT), (5.0, Phase.LOAD), (30.0, Phase.WARM_UP)):
        progress.enter(phase, at_s)
    progress.state = State.GONE
    progress.start_again(40.0)
    assert (progress.state, progress.phase) == (State.STARTING, Phase.BOOT)
    for at_s, after in ((44.0, Phase.LOAD), (54.0, Phase.FIRST_TOKEN), (56.0, None)):
        progress.enter(after, at_s)
    assert progress.phases_s(99.0) == {Phase.PREFLIGHT: 1.0, Phase.BOOT: 4.0, Phase.LOAD: 10.0, Phase.FIRST_TOKEN: 2.0}


async def test_how_far_a_first_engine_came_says_nothing_of_the_second(tmp_path: Path) -> None:
    around = around_in(tmp_path)
    part, progress = StartProgress(around), around.progress
    part.heard("Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:00<00:00, 2.00it/s]")
    await asyncio.sleep(0)
    assert part._phase_share(Phase.LOAD) == 0.5
    progress.start_again(10.0)
    part.equip(tmp_path)
    progress.enter(Phase.LOAD, 12.0)
    assert part._phase_share(Phase.LOAD) is None


async def test_what_a_first_engine_did_is_not_what_the_second_is_waited_for() -> None:
    class Api:
        asked = 0

        async def healthy(self) -> bool:
            self.asked += 1
            return self.asked == 1

    api: Any = Api()
    token = FirstToken(api, "m")
    await token.healthy()
    with suppress(TimeoutError):
        async with asyncio.timeout(0):
            await token.healthy()
    assert token.waits_for == "its /health never was 200"
