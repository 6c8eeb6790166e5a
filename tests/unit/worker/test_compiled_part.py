"""Compiled code around a start: a start never ends because of it."""

import asyncio
import socket
from pathlib import Path

import pytest

from modelfleet_worker.compiled import store_key
from modelfleet_worker.compiled_part import CompiledPart
from modelfleet_worker.compiled_store import Found, Shelf
from modelfleet_worker.failure import Failure, Reason
from modelfleet_worker.plan import Compiled, parse_plan
from modelfleet_worker.start_outlook import Phase
from modelfleet_worker.state import Progress
from worker_around import around_in
from worker_process import EngineUnderTest, plan_of, running_worker, stand_in

DIED = Failure(reason=Reason.ENGINE_START_FAILED, message="", remedy="")


def part_of(tmp_path: Path, root: Path) -> tuple[CompiledPart, Progress]:
    around = around_in(tmp_path)
    (tmp_path / "scratch").mkdir(exist_ok=True)
    compiled = Compiled(key="plan", root=root, size_bytes=10**9)
    return CompiledPart(around, compiled, str(tmp_path / "python"), settle_s=0.0), around.progress


def state(part: CompiledPart) -> str:
    (family,) = part.metrics()
    return str(family.samples[0].labels["state"])


def compiled(tmp_path: Path, text: str = "machine code") -> Path:
    path = tmp_path / "scratch/inductor/graph.so"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


async def until(part: CompiledPart, wanted: str) -> None:
    while state(part) != wanted:  # noqa: ASYNC110 (a page is looked at, as an operator does)
        await asyncio.sleep(0.1)


async def test_what_is_kept_once_the_engine_serves_is_taken_by_the_next_start(tmp_path: Path) -> None:
    part, progress = part_of(tmp_path, tmp_path / "kept")
    assert await part.check() is None
    assert state(part) == Found.NOTHING
    made = compiled(tmp_path)
    watching = asyncio.ensure_future(part.watch())
    await asyncio.sleep(0.05)
    assert not list((tmp_path / "kept/models").iterdir())
    progress.enter(None, 1.0)
    await until(part, "Kept")
    watching.cancel()

    made.write_text("what a killed container left")
    again, _ = part_of(tmp_path, tmp_path / "kept")
    assert await again.check() is None
    assert (state(again), made.read_text()) == (Found.TAKEN, "machine code")


async def test_caches_of_a_container_that_was_killed_are_not_gone_on_with(tmp_path: Path) -> None:
    made = compiled(tmp_path)
    part, _ = part_of(tmp_path, tmp_path / "kept")
    await part.check()
    assert not made.exists()


async def test_a_folder_that_cannot_be_used_is_said_and_stops_no_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    part, _ = part_of(tmp_path, tmp_path / "file/below")
    assert await part.check() is None
    assert "compiled code cannot be read, so the engine compiles" in caplog.text
    assert state(part) == Found.NOTHING


@pytest.mark.parametrize(
    ("reason", "gives_up"),
    [
        pytest.param(Reason.ENGINE_START_FAILED, True, id="an end that nothing else explains"),
        pytest.param(Reason.ENGINE_START_TIMEOUT, True, id="a start that does not end"),
        pytest.param(Reason.ENGINE_OUT_OF_MEMORY, False, id="an end that is explained"),
    ],
)
async def test_code_is_given_up_once_and_only_for_an_end_without_another_cause(
    tmp_path: Path, reason: Reason, gives_up: bool
) -> None:
    first, _ = part_of(tmp_path, tmp_path / "kept")
    assert not await first.took_back(DIED)
    await first.check()
    compiled(tmp_path)
    assert first._shelf is not None
    first._shelf.put(tmp_path / "scratch")
    part, _ = part_of(tmp_path, tmp_path / "kept")
    await part.check()

    assert await part.took_back(Failure(reason=reason, message="", remedy="")) is gives_up
    assert bool(list((tmp_path / "kept/models").iterdir())) is not gives_up
    assert not await part.took_back(Failure(reason=reason, message="", remedy=""))


async def test_after_a_death_that_nothing_explains_the_next_container_compiles(tmp_path: Path) -> None:
    first, _ = part_of(tmp_path, tmp_path / "kept")
    await first.check()
    compiled(tmp_path)
    assert first._shelf is not None
    first._shelf.put(tmp_path / "scratch")
    part, _ = part_of(tmp_path, tmp_path / "kept")
    await part.check()
    await part.close(None)
    again, _ = part_of(tmp_path, tmp_path / "kept")
    await again.check()
    assert state(again) == Found.TAKEN, "a worker that ended as it was asked to leaves what it took"
    await again.close(Failure(reason=Reason.ENGINE_DIED, message="", remedy="", phase="serving"))
    assert not list((tmp_path / "kept/models").iterdir())


def poisoned(folder: Path) -> EngineUnderTest:
    """The stand-in, which ends at once where it is given compiled code that is poison, as machine code of another
    processor would be; told by `SIGILL`, the exit code of a shell's child."""
    under_test = stand_in(folder)
    script = Path(under_test.python)
    shebang, start = script.read_text().split("\n", 1)
    die = "{ echo 'CPU KV cache size: 1,024 tokens'; exit 132; }"
    script.write_text(f'{shebang}\ngrep -qs poison "$TORCHINDUCTOR_CACHE_DIR/graph.so" && {die}\n{start}')
    return under_test


async def test_an_engine_that_dies_of_kept_code_starts_once_more_without_it(tmp_path: Path) -> None:
    under_test, root = poisoned(tmp_path), tmp_path / "kept"
    plan = {**plan_of(under_test), "compiled": {"key": "plan", "root": str(root), "sizeBytes": 10**9}}
    compiled(tmp_path, "poison")
    key = store_key("plan", under_test.python)
    Shelf(Compiled(key="plan", root=root, size_bytes=10**9), key, socket.gethostname()).put(tmp_path / "scratch")

    async with running_worker(tmp_path, plan) as worker:
        await worker.until_ready()
        page = await worker.metrics()
        assert worker.termination is None
    assert page['modelfleet_worker_compiled_code_info{state="Damaged"}'] == 1
    phases = {phase for phase in Phase if f'modelfleet_worker_start_phase_seconds{{phase="{phase}"}}' in page}
    assert phases == {Phase.PREFLIGHT, Phase.BOOT, Phase.FIRST_TOKEN}, "the first engine came as far as its warm-up"
    assert "the engine ended with compiled code that was kept, without another cause" in worker.log
    assert not (root / "models" / key).exists()


def test_a_plan_says_where_compiled_code_is_kept() -> None:
    text = """{"model": {"path": "/m", "servedNames": ["m"]}, "compiled": {"key": "ab", "root": "/models/compiled",
     "sizeBytes": 5, "maxAge_s": 60}, "limits": {"startDeadline_s": 1, "drain_s": 1, "propagation_s": 1}}"""
    wanted = Compiled(key="ab", root=Path("/models/compiled"), size_bytes=5, max_age_s=60)
    assert parse_plan(text).compiled == wanted
