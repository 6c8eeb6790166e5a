"""The gate as the ASGI layer that it is: which paths pass, what is counted, and what a drain changes."""

import asyncio

import pytest

from modelfleet_worker.gate import Gate
from modelfleet_worker.gate_state import FOLDER_VARIABLE, TOKEN_HEADER, TOKEN_VARIABLE, Board, Mode, Outcome


@pytest.fixture
def board(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setenv(TOKEN_VARIABLE, "secret")
    return Board(tmp_path)


async def engine(scope, receive, send):
    """Answers 200 in two pieces, as a stream does."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"a", "more_body": True})
    await send({"type": "http.response.body", "body": b"b"})


def with_status(status):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    return app


async def breaks(scope, receive, send):
    raise RuntimeError("the engine broke")


async def call(app, path="/v1/chat/completions", headers=(), root_path="", arrives=None):
    """One request; the messages that came back."""
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return arrives or {"type": "http.request", "body": b"", "more_body": False}

    await app({"type": "http", "path": path, "headers": list(headers), "root_path": root_path}, receive, send)
    return sent


def ended(board):
    return {outcome.value: count for outcome, count in board.read().ended.items() if count}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/models", "/tokenize", "/health"])
async def test_a_path_for_users_reaches_the_engine(board, path):
    assert (await call(Gate(engine), path))[0]["status"] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/sleep",
        "/v1/load_lora_adapter",
        "/metrics",
        "/docs",
        "/v1/models/",
        "/v1/chat/completions/x",
        "//v1/models",
        "",
    ],
)
async def test_any_other_path_does_not(board, path):
    assert (await call(Gate(engine), path))[0]["status"] == 404
    assert ended(board) == {}


async def test_a_root_path_is_not_part_of_the_path(board):
    assert (await call(Gate(engine), "/prefix/v1/models", root_path="/prefix"))[0]["status"] == 200


async def test_metrics_are_for_the_supervisor_alone(board):
    token = (TOKEN_HEADER.encode(), b"secret")
    assert (await call(Gate(engine), "/metrics", [token]))[0]["status"] == 200
    assert (await call(Gate(engine), "/metrics", [(TOKEN_HEADER.encode(), b"guess")]))[0]["status"] == 404


async def test_the_supervisor_s_own_request_is_not_counted_and_passes_a_drain(board):
    board.set_mode(Mode.REFUSE)
    token = (TOKEN_HEADER.encode(), b"secret")
    assert (await call(Gate(engine), headers=[token]))[0]["status"] == 200
    assert ended(board) == {}


@pytest.mark.parametrize(
    ("app", "outcome"),
    [
        pytest.param(engine, Outcome.COMPLETED, id="answered"),
        pytest.param(with_status(400), Outcome.CLIENT_ERROR, id="the client's mistake"),
        pytest.param(with_status(500), Outcome.SERVER_ERROR, id="the engine's mistake"),
    ],
)
async def test_an_answer_is_counted_once_by_its_outcome(board, app, outcome):
    await call(Gate(app))
    assert ended(board) == {outcome.value: 1}
    assert board.read().in_flight == 0


async def test_an_exception_is_counted_and_goes_on(board):
    with pytest.raises(RuntimeError):
        await call(Gate(breaks))
    assert ended(board) == {"server_error": 1}
    assert board.read().in_flight == 0


async def test_a_client_that_leaves_is_counted_apart(board):
    async def waits(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        assert (await receive())["type"] == "http.disconnect"

    await call(Gate(waits), arrives={"type": "http.disconnect"})
    assert ended(board) == {"aborted": 1}


async def test_a_cancelled_request_is_no_longer_in_flight(board):
    async def hangs(scope, receive, send):
        await asyncio.Event().wait()

    running = asyncio.ensure_future(call(Gate(hangs)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert board.read().in_flight == 1
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert board.read().in_flight == 0


async def test_a_drain_first_closes_connections_and_then_refuses(board):
    gate = Gate(engine)
    board.set_mode(Mode.CLOSE)
    assert (b"connection", b"close") in (await call(gate))[0]["headers"]
    board.set_mode(Mode.REFUSE)
    refused = (await call(gate))[0]
    assert refused["status"] == 503
    assert {(b"retry-after", b"1"), (b"connection", b"close")} <= set(refused["headers"])
    assert ended(board) == {"completed": 1, "refused": 1}


async def test_a_web_socket_is_closed_and_the_engine_s_own_start_passes(board):
    sent = []

    async def send(message):
        sent.append(message)

    await Gate(breaks)({"type": "websocket", "path": "/v1/models"}, None, send)
    assert [message["type"] for message in sent] == ["websocket.close"]
    with pytest.raises(RuntimeError):
        await Gate(breaks)({"type": "lifespan"}, None, None)
