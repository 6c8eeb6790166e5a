"""Drains and SIGTERM at every moment of a worker's life, over the stand-in engine."""

import asyncio
import hashlib
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from modelfleet_worker.drain import Drain
from modelfleet_worker.drain_entrance import DrainEntrance
from modelfleet_worker.gate_state import Board
from modelfleet_worker.plan import Limits
from worker_process import EngineUnderTest, Worker, living, plan_of, running_worker, stand_in

TOKEN = "of this worker"
BODY = {"model": "tiny", "prompt": "hi", "max_tokens": 1}


def _hanging_volume(folder: Path) -> EngineUnderTest:
    """A model whose config.json never comes: a pipe without a writer, as a volume that does not answer."""
    under_test = stand_in(folder)
    config = Path(under_test.model, "config.json")
    config.unlink()
    os.mkfifo(config)
    return under_test


PHASES: dict[str, tuple[Callable[[Path], EngineUnderTest], str]] = {
    "preflight": (_hanging_volume, "preflight"),
    "boot": (lambda folder: stand_in(folder, start_s="1000"), "boot"),
    "load": (lambda folder: stand_in(folder, start_s="0.4", load_s="1000"), "load"),
    "warm_up": (lambda folder: stand_in(folder, start_s="0.4", warm_up_s="1000"), "warm_up"),
    "first_token": (lambda folder: stand_in(folder, fault="silent"), "first_token"),
}


@pytest.mark.parametrize("name", PHASES)
async def test_sigterm_in_a_phase_of_the_start_ends_the_worker_at_once(tmp_path: Path, name: str) -> None:
    made, phase = PHASES[name]
    async with running_worker(tmp_path, plan_of(made(tmp_path), propagation_s=3600, drain_s=3600)) as worker:
        await worker.until(lambda: _is_in(worker, phase))
        below = worker.below
        worker.terminate()
        assert await worker.exit_code() == 0
        assert worker.termination is None
        assert not living(below)


async def test_a_volume_that_does_not_answer_is_a_start_that_takes_too_long(tmp_path: Path) -> None:
    async with running_worker(tmp_path, plan_of(_hanging_volume(tmp_path), startDeadline_s=1)) as worker:
        assert await worker.exit_code() == 1
        assert worker.termination["reason"] == "EngineStartTimeout"
        assert "a volume may not answer" in worker.termination["message"]


async def test_a_second_sigterm_does_not_shorten_a_drain(tmp_path: Path) -> None:
    under_test = stand_in(tmp_path, token_s="0.01")
    async with running_worker(tmp_path, plan_of(under_test, propagation_s=0.2)) as worker:
        await worker.until_ready()
        async with worker.stream(100) as answer:
            await answer.content.readline()
            for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGINT):
                worker.terminate(number)
                await asyncio.sleep(0.1)
            rest = (await answer.content.read()).decode()
        assert '"completion_tokens": 100' in rest
        assert await worker.exit_code() == 0


def _with_entrance(under_test: EngineUnderTest, **limits: Any) -> dict[str, Any]:
    return plan_of(under_test, drainTokenSha256=hashlib.sha256(TOKEN.encode()).hexdigest(), **limits)


async def test_a_chosen_drain_goes_step_by_step_and_back_until_it_refuses(tmp_path: Path) -> None:
    async with running_worker(tmp_path, _with_entrance(stand_in(tmp_path), propagation_s=3600)) as worker:
        await worker.until_ready()
        assert await _told(worker, "close") == (200, "close")
        closed = await worker.api("/v1/completions", BODY)
        assert (closed.status, closed.headers["Connection"]) == (200, "close")
        assert (await worker.status("/readyz")).status == 200, "the label alone takes it from the Service"
        assert await _told(worker, "serve") == (200, "serve")
        assert "Connection" not in (await worker.api("/v1/completions", BODY)).headers
        assert await _told(worker, "refuse") == (200, "refuse")
        refused = await worker.api("/v1/completions", BODY)
        assert (refused.status, "Retry-After" in refused.headers) == (503, True)
        assert await _told(worker, "serve") == (409, "refuse")
        worker.terminate()
        assert await worker.exit_code() == 0, "refusing is the drain's last step, so the propagation time is not waited"


async def test_a_chosen_drain_shows_what_is_in_flight(tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    async with running_worker(tmp_path, _with_entrance(stand_in(tmp_path, slow_while=str(slow)))) as worker:
        await worker.until_ready()
        slow.touch()  # the stream does not end before the worker was asked
        async with worker.stream(200) as answer:
            await answer.content.readline()
            said = await worker.tell("/drain", {"mode": "refuse"}, TOKEN)
            assert said.json == {"mode": "refuse", "inFlight": 1}
            slow.unlink()
            await answer.content.read()
        await worker.until(lambda: _idle(worker))


async def test_the_entrance_is_shut_for_whoever_lacks_the_token_or_asks_for_nonsense(tmp_path: Path) -> None:
    refuse = {"mode": "refuse"}
    async with running_worker(tmp_path, _with_entrance(stand_in(tmp_path))) as worker:
        await worker.until(lambda: _is_in(worker, None))
        asked = (("", refuse), ("of another", refuse), (TOKEN, {"mode": "explode"}), (TOKEN, ["refuse"]))
        assert [(await worker.tell("/drain", body, token)).status for token, body in asked] == [401, 401, 400, 400]
        assert (await worker.metrics())['modelfleet_worker_arrivals{mode="serve"}'] == 1


async def test_bytes_that_are_no_text_are_refused_as_a_wrong_token_and_a_wrong_body_are(tmp_path: Path) -> None:
    board = Board(tmp_path)
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    app = web.Application()
    app.add_routes(
        DrainEntrance(Drain(board, Limits(start_deadline_s=1, drain_s=1, propagation_s=1)), board, digest).routes()
    )
    right = f"Bearer {TOKEN}"
    asked = (
        (b"{}", {"Authorization": "Bearer \udcff"}, 401),
        (b"{}", {"Authorization": right, "Content-Type": "application/json; charset=klingon"}, 400),
        (b"[" * 100_000, {"Authorization": right}, 400),
        (b"\xff", {"Authorization": right}, 400),
        (b'{"mode": ["close"]}', {"Authorization": right}, 400),
    )
    async with TestClient(TestServer(app)) as client:
        for body, headers, status in asked:
            assert (await client.post("/drain", data=body, headers=headers)).status == status


async def test_without_a_token_in_the_plan_there_is_no_entrance(tmp_path: Path) -> None:
    async with running_worker(tmp_path, plan_of(stand_in(tmp_path))) as worker:
        await worker.until_ready()
        assert (await worker.tell("/drain", {"mode": "refuse"}, "")).status == 404


async def _told(worker: Worker, mode: str) -> tuple[int, str]:
    """The status of the answer, and the mode that holds afterwards."""
    status = (await worker.tell("/drain", {"mode": mode}, TOKEN)).status
    page = await worker.metrics()
    (holds,) = (one for one in ("serve", "close", "refuse") if page[f'modelfleet_worker_arrivals{{mode="{one}"}}'])
    return status, holds


async def _is_in(worker: Worker, phase: str | None) -> bool:
    try:
        return bool((await worker.status("/startupz")).json["start"]["phase"] == phase)
    except OSError:
        return False


async def _idle(worker: Worker) -> bool:
    return await worker.in_flight() == 0
