"""A fetch that gets no further gives up by itself, whatever it waits for."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

import pytest

from fetch_runs import HASTY, HUB, errand
from modelfleet_worker.failure import Failure, Reason
from modelfleet_worker.fetch.progress import FILE, Progress
from modelfleet_worker.fetch.run import fetch
from modelfleet_worker.fetch.store import Store
from weight_servers import model, serving


class Clock:
    """Seconds that only pass when told."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def progress(tmp_path: Path, clock: Clock) -> Progress:
    """One that has been silent for a minute."""
    made = Progress(tmp_path, clock)
    clock.now_s += 60.0
    return made


def test_silence_is_counted_from_the_beginning(progress: Progress) -> None:
    assert progress.silent_s == 60.0


@pytest.mark.parametrize(
    "stir",
    [
        pytest.param(lambda progress: progress.begin(0, 100), id="the files were listed"),
        pytest.param(lambda progress: progress.moved(1), id="a byte came"),
        pytest.param(lambda progress: progress.checked(1), id="a byte was checked"),
    ],
)
def test_what_ends_a_silence(progress: Progress, stir: object) -> None:
    assert callable(stir)
    stir(progress)
    assert progress.silent_s == 0.0


def test_who_waits_is_as_silent_as_the_one_that_is_waited_for(tmp_path: Path, clock: Clock) -> None:
    for name in ("own", "other"):
        (tmp_path / name).mkdir()
    other, waits = Progress(tmp_path / "other", clock), Progress(tmp_path / "own", clock)
    silent = []
    for act in (lambda: other.moved(1), lambda: None, lambda: other.checked(1), lambda: None):
        clock.now_s += 60.0
        act()
        waits.waits(tmp_path / "other")
        silent.append(waits.silent_s)
    assert silent == [0.0, 60.0, 0.0, 60.0]


def test_what_is_checked_is_shown_to_those_who_wait(tmp_path: Path, clock: Clock) -> None:
    progress = Progress(tmp_path, clock)
    clock.now_s += 2.0
    progress.checked(30)
    assert json.loads((tmp_path / FILE).read_text())["checkedBytes"] == 30


def test_a_fetch_that_waits_for_one_that_gets_no_further_gives_up(tmp_path: Path) -> None:
    said: SimpleQueue[Failure] = SimpleQueue()
    with serving(HUB.handler, HUB.shelf(model())) as address:
        order = HUB.order(address, tmp_path / "store")
        of = errand(order, patience=replace(HASTY, silent_s=0.1), give_up=said.put)
        store = Store(order.root)
        store.prepare()
        thread = Thread(target=fetch, args=(of,))
        with store.locked(order.key):
            thread.start()
            failure = said.get(timeout=30)
        thread.join()
    assert (failure.reason, failure.phase) == (Reason.FETCH_FAILED, "fetch")
    assert "Another pod fetches these weights, and it got no further" in failure.message


def test_a_fetch_that_gets_on_does_not_give_up(tmp_path: Path) -> None:
    said: SimpleQueue[Failure] = SimpleQueue()
    with serving(HUB.handler, HUB.shelf(model())) as address:
        order = HUB.order(address, tmp_path / "store")
        assert fetch(errand(order, give_up=said.put)) is None
    assert said.empty()


def test_giving_up_leaves_the_reason_and_ends_the_process(tmp_path: Path) -> None:
    log = tmp_path / "termination-log"
    source = (
        "import sys; from pathlib import Path; from modelfleet_worker import commands;"
        " from modelfleet_worker.failure import Failure, Reason;"
        " commands.gives_up(Path(sys.argv[1]))(Failure(reason=Reason.FETCH_FAILED, message='m', remedy='r'))"
    )
    assert subprocess.run([sys.executable, "-c", source, str(log)], check=False).returncode == 1
    assert json.loads(log.read_text())["reason"] == "FetchFailed"
