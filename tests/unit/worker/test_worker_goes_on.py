"""What breaks beside the requests, and leaves a worker that still answers, counts and watches."""

import asyncio
import json
import shutil
import time
from collections.abc import Iterable
from math import inf
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client.core import GaugeMetricFamily, Metric
from test_gate_goodput import PROMISE, TEXT, Notes, ask, ended, engine
from test_goodput_part import around, page, promise  # noqa: F401 (around is a fixture)

from modelfleet_worker import processes, watching
from modelfleet_worker.engine_api import EngineApi
from modelfleet_worker.engine_settings import engine_settings
from modelfleet_worker.failure import Failure, Reason
from modelfleet_worker.gate_state import FOLDER_VARIABLE, TOKEN_VARIABLE, Board, ModeReader
from modelfleet_worker.goodput_part import GoodputPart
from modelfleet_worker.ledger import Request, following, sequence_added
from modelfleet_worker.parts import Around, Part
from modelfleet_worker.state import Progress
from modelfleet_worker.status import Status, served
from modelfleet_worker.tally import tally_file
from modelfleet_worker.watching import watchers
from modelfleet_worker.words import Words
from worker_process import free_port


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Board:
    board = Board(tmp_path / "gate")
    board.set_promise(PROMISE, TEXT)
    monkeypatch.setenv(FOLDER_VARIABLE, str(board.folder))
    monkeypatch.setenv(TOKEN_VARIABLE, "token")
    return board


def test_a_file_of_counts_has_its_room_from_the_start_and_never_gets_shorter(tmp_path: Path) -> None:
    words = Words(tmp_path / "counts-1", 4096, create=True)
    assert (tmp_path / "counts-1").stat().st_blocks * 512 >= 4096 * 8, "a write would kill the process of a full volume"
    Words(tmp_path / "counts-1", 8, create=True)
    words[4095] = 1
    assert words[4095] == 1


async def test_a_request_is_answered_although_it_cannot_be_judged(board: Board) -> None:
    own = tally_file(board.folder, PROMISE, os_pid())
    own.mkdir()
    await ask(engine(Notes()))
    assert board.read().ended["completed"] == 1
    own.rmdir()
    await ask(engine(Notes()))
    assert ended(board) == {"met": 1}


def os_pid() -> int:
    return int(Path("/proc/self").resolve().name)


def test_the_promise_before_counts_while_the_new_one_cannot_be_read(board: Board) -> None:
    reader, file = ModeReader(board.folder), board.folder / "promise.json"
    assert reader.promise == PROMISE
    file.unlink()
    file.mkdir()
    Words(board.folder / "mode", 2, create=False)[1] += 1
    assert reader.promise == PROMISE
    file.rmdir()
    file.write_text(promise("ba9876543210"))
    assert reader.promise is not None
    assert reader.promise.digest == "ba9876543210"


async def test_a_promise_that_cannot_be_handed_on_is_handed_on_later(around: Around) -> None:  # noqa: F811
    (around.board.folder / "promise.json.new").mkdir()
    around.promise.write_text(promise("0123456789ab"))
    part = GoodputPart(around)
    assert await part.check() is None
    assert around.board.promise is None
    (around.board.folder / "promise.json.new").rmdir()
    await part.check()
    assert around.board.promise is not None


async def test_other_limits_under_the_same_digest_are_refused(around: Around) -> None:  # noqa: F811
    around.promise.write_text(promise("0123456789ab"))
    part = GoodputPart(around)
    await part.check()
    around.promise.write_text(promise("0123456789ab", ttft_s=9, inputEdges=list(range(1, 99))))
    await part.check()
    assert around.board.promise is not None
    assert around.board.promise.objectives[0].ttft_s == 0.5
    assert page(part)


class _Breaks(Part):
    def __init__(self) -> None:
        self.watched = 0

    def metrics(self) -> Iterable[Metric]:
        yield GaugeMetricFamily("half", "Never shown.", 1)
        raise OSError("no file descriptors")

    async def watch(self) -> Failure:
        self.watched += 1
        if self.watched < 3:
            raise OSError("no file descriptors")
        return Failure(reason=Reason.ENGINE_HUNG, message="It hangs.", remedy="Look.")


class _Whole(Part):
    def metrics(self) -> Iterable[Metric]:
        yield GaugeMetricFamily("whole", "Always shown.", 1)


async def test_a_part_without_its_numbers_costs_the_page_nothing_else(tmp_path: Path) -> None:
    status = Status("1", Progress(0.0), Board(tmp_path), EngineApi(1, ""), (_Breaks(), _Whole()))
    async with TestClient(TestServer(status.app())) as client:
        answer = await client.get("/metrics")
        text = await answer.text()
    assert (answer.status, "whole 1.0" in text, "half" in text) == (200, True, False)
    assert "modelfleet_worker_in_flight 0.0" in text


@pytest.mark.parametrize("sent", [b"\0" * 9000 + b"\r\n\r\n", b"GET /livez HTTP/1.1\r\nX: " + b"a" * 100_000])
async def test_what_is_no_http_gets_400_and_leaves_no_traceback(
    tmp_path: Path, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    status, port = Status("1", Progress(0.0), Board(tmp_path), EngineApi(1, "")), free_port()
    async with served(status.app(), port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        assert b" 400 " in await reader.readline()
        writer.close()
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.looptime
async def test_a_watcher_that_broke_watches_again() -> None:
    part = _Breaks()
    async with watchers((part,)) as found:
        await asyncio.wait_for(found.found(), 3 * watching.AGAIN_S)
    assert (part.watched, found.failure is not None) == (3, True)


@pytest.mark.parametrize("set_s", [-3600.0, 3600.0], ids=["back", "forth"])
def test_a_wall_clock_that_is_set_meanwhile_makes_no_request_late_or_early(set_s: float) -> None:
    began_ns = time.monotonic_ns() - 2_000_000_000
    request = Request(time.time() - 2.0 - set_s, began_ns)
    request.clocks_apart_s -= set_s
    notes = Notes(first_s=0.5)
    notes.arrival_time, notes.first_token_ts = time.time() - 2.0, began_ns / 1e9 + 0.5
    notes.last_token_ts = notes.first_token_ts
    with following(request):
        sequence_added(notes, 7)
        measured = request.measured()
    assert measured is not None
    assert measured.ttft_s == pytest.approx(0.5, abs=0.01)


def test_a_kernel_without_statistics_of_threads_is_no_engine_that_sleeps(tmp_path: Path) -> None:
    task = tmp_path / "7" / "task" / "7"
    task.mkdir(parents=True)
    (task / "stat").write_text("7 (python) S 1")
    assert processes.wanted_s(7, tmp_path) is None
    (task / "schedstat").write_text("2000000000 500000000 7\n")
    assert processes.wanted_s(7, tmp_path) == 2.5
    (task / "stat").write_text("7 (python) D 1")
    assert processes.wanted_s(7, tmp_path) == inf
    shutil.rmtree(task)
    assert processes.wanted_s(7, tmp_path) == 0.0


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "9" * 400, "1e999", "x"])
def test_a_setting_that_is_no_number_counts_as_not_given(text: str) -> None:
    flags = ("gpu-memory-utilization", "kv-cache-memory-bytes", "max-num-seqs", "max-model-len")
    found: Any = engine_settings([f"--{flag}={text}" for flag in flags])
    assert json.loads(json.dumps([found.fraction, found.kv_bytes, found.sequences, found.context_tokens])) == [
        0.92,
        None,
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("text", "count"), [("rchar: 7\nread_bytes: 4096\n", 4096), ("", 0), ("odd", 0), ("read_bytes: x", 0)]
)
def test_what_a_process_read_is_none_where_the_kernel_does_not_say(tmp_path: Path, text: str, count: int) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "io").write_text(text)
    assert processes.read_bytes(7, tmp_path) == count
    assert processes.read_bytes(8, tmp_path) == 0
