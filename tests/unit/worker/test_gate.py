"""The ASGI gate on its own: what it lets through, what it counts, how it drains. No server and no engine."""

import asyncio
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import pytest

from modelfleet_worker.gate import Gate
from modelfleet_worker.gate_state import FOLDER_VARIABLE, TOKEN_VARIABLE, Board, Mode, Outcome

TOKEN = "secret"
CHAT = "/v1/chat/completions"


class Client:
    """One exchange with the gate; `messages` are what it got."""

    def __init__(self, *incoming: dict[str, Any]) -> None:
        self.incoming = list(incoming) or [{"type": "http.request", "body": b"{}", "more_body": False}]
        self.messages: list[MutableMapping[str, Any]] = []

    async def receive(self) -> MutableMapping[str, Any]:
        if self.incoming:
            return self.incoming.pop(0)
        await asyncio.Event().wait()
        raise AssertionError

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self.messages.append(message)

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"])

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.messages[0]["headers"])


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Board:
    board = Board(tmp_path / "gate")
    monkeypatch.setenv(FOLDER_VARIABLE, str(board.folder))
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    return board


async def answer(scope: Any, receive: Any, send: Any, status: int = 200) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"x", b"y")]})
    await send({"type": "http.response.body", "body": b"part", "more_body": True})
    await send({"type": "http.response.body", "body": b"end"})


def http(path: str, *headers: tuple[bytes, bytes], **more: Any) -> dict[str, Any]:
    return {"type": "http", "path": path, "headers": list(headers), "method": "POST", **more}


@pytest.mark.parametrize(
    "path",
    [
        CHAT,
        "/v1/completions",
        "/v1/models",
        "/v1/messages",
        "/v1/messages/count_tokens",
        "/v1/responses",
        "/v1/responses/resp_1",
        "/v1/responses/resp_1/cancel",
        "/tokenize",
        "/detokenize",
        "/health",
    ],
)
async def test_the_network_may_call(board: Board, path: str) -> None:
    client = Client()
    await Gate(answer)(http(path), client.receive, client.send)
    assert client.status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/metrics",
        "/version",
        "/sleep",
        "/pause",
        "/collective_rpc",
        "/server_info",
        "/scale_elastic_ep",
        "/v1/load_lora_adapter",
        "/v1/chat/completions/render",
        "/v1/chat/completions/",
        "/v1/chat/completions\n",
        "/v1/responses/a/b/cancel",
        "//v1/models",
        "/V1/models",
        "/health/",
    ],
)
async def test_the_network_does_not_see(board: Board, path: str) -> None:
    client = Client()
    await Gate(answer)(http(path), client.receive, client.send)
    assert client.status == 404
    assert sum(board.read().ended.values()) == 0


async def test_a_root_path_in_front_of_the_api_changes_nothing(board: Board) -> None:
    client = Client()
    await Gate(answer)(http("/root" + CHAT, root_path="/root"), client.receive, client.send)
    assert client.status == 200


@pytest.mark.parametrize(
    ("path", "token", "status"),
    [
        pytest.param("/metrics", TOKEN, 200, id="the supervisor reads metrics"),
        pytest.param("/metrics", "guess", 404, id="a guessed token reads none"),
        pytest.param("/v1/completions", TOKEN, 200, id="the supervisor generates"),
        pytest.param("/sleep", TOKEN, 404, id="the supervisor has no admin path either"),
    ],
)
async def test_a_request_with_a_token(board: Board, path: str, token: str, status: int) -> None:
    client = Client()
    header = (b"x-modelfleet-supervisor", token.encode())
    await Gate(answer)(http(path, header), client.receive, client.send)
    assert client.status == status
    assert sum(board.read().ended.values()) == 0, "it is not a client's"


async def test_the_supervisor_passes_a_drain(board: Board) -> None:
    gate, client = Gate(answer), Client()
    board.set_mode(Mode.REFUSE)
    await gate(http(CHAT, (b"x-modelfleet-supervisor", TOKEN.encode())), client.receive, client.send)
    assert (client.status, sum(board.read().ended.values())) == (200, 0)


async def test_a_cancelled_request_is_no_longer_in_flight(board: Board) -> None:
    async def hangs(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.Event().wait()

    client = Client()
    running = asyncio.create_task(Gate(hangs)(http(CHAT), client.receive, client.send))
    await asyncio.sleep(0)
    assert board.read().in_flight == 1
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert board.read().in_flight == 0


async def test_a_websocket_is_refused(board: Board) -> None:
    client = Client()
    await Gate(answer)({"type": "websocket", "path": "/v1/realtime", "headers": []}, client.receive, client.send)
    assert client.messages == [{"type": "websocket.close", "code": 1008}]


async def test_the_lifespan_reaches_the_engine(board: Board) -> None:
    seen: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    await Gate(app)({"type": "lifespan"}, Client().receive, Client().send)
    assert seen == ["lifespan"]


async def test_a_request_is_in_flight_until_its_stream_ends(board: Board) -> None:
    seen: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(board.read().in_flight)
        await answer(scope, receive, send)
        seen.append(board.read().in_flight)

    client = Client()
    await Gate(app)(http(CHAT), client.receive, client.send)
    assert (seen, board.read().in_flight, board.read().gates) == ([1, 1], 0, 1)
    assert client.headers == {b"x": b"y"}


async def _fails(scope: Any, receive: Any, send: Any) -> None:
    raise RuntimeError("of the engine")


async def _sees_the_client_leave(scope: Any, receive: Any, send: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _leaves_a_stream(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await _sees_the_client_leave(scope, receive, send)
    raise asyncio.CancelledError


async def _looks_after_the_end(scope: Any, receive: Any, send: Any) -> None:
    await answer(scope, receive, send)
    await _sees_the_client_leave(scope, receive, send)


def _status(status: int) -> Any:
    return lambda scope, receive, send: answer(scope, receive, send, status)


@pytest.mark.parametrize(
    ("app", "outcome"),
    [
        pytest.param(answer, Outcome.COMPLETED, id="a whole answer"),
        pytest.param(_status(307), Outcome.COMPLETED, id="a redirect"),
        pytest.param(_status(422), Outcome.CLIENT_ERROR, id="a 422"),
        pytest.param(_status(503), Outcome.SERVER_ERROR, id="a 503 of the engine"),
        pytest.param(_fails, Outcome.SERVER_ERROR, id="an exception"),
        pytest.param(_sees_the_client_leave, Outcome.ABORTED, id="a client that leaves before the answer"),
        pytest.param(_leaves_a_stream, Outcome.ABORTED, id="a client that leaves a stream, which is cancelled"),
        pytest.param(_looks_after_the_end, Outcome.COMPLETED, id="a client that leaves after the answer"),
    ],
)
async def test_is_counted_once(board: Board, app: Any, outcome: Outcome) -> None:
    client = Client({"type": "http.request", "body": b"", "more_body": False}, {"type": "http.disconnect"})
    await asyncio.gather(Gate(app)(http(CHAT), client.receive, client.send), return_exceptions=True)
    counts = board.read()
    assert (counts.in_flight, {name: count for name, count in counts.ended.items() if count}) == (0, {outcome: 1})


async def test_while_routes_still_lead_here_arrivals_are_served_and_the_connection_closes(board: Board) -> None:
    gate, client = Gate(answer), Client()
    board.set_mode(Mode.CLOSE)
    await gate(http(CHAT), client.receive, client.send)
    assert (client.status, client.headers[b"connection"], client.headers[b"x"]) == (200, b"close", b"y")


async def test_in_the_last_step_arrivals_are_refused_once_their_body_is_read(board: Board) -> None:
    gate = Gate(answer)
    client = Client(
        {"type": "http.request", "body": b"a", "more_body": True},
        {"type": "http.request", "body": b"b", "more_body": False},
    )
    board.set_mode(Mode.REFUSE)
    await gate(http(CHAT), client.receive, client.send)
    assert (client.status, client.incoming) == (503, [])
    assert (client.headers[b"retry-after"], client.headers[b"connection"]) == (b"1", b"close")
    assert (board.read().in_flight, board.read().ended[Outcome.REFUSED]) == (0, 1)


async def test_an_arrival_that_sends_its_body_slowly_does_not_hold_up_the_drain(board: Board) -> None:
    gate = Gate(answer)
    board.set_mode(Mode.REFUSE)
    client = Client({"type": "http.request", "body": b"a", "more_body": True})
    task = asyncio.create_task(gate(http(CHAT), client.receive, client.send))
    await asyncio.sleep(0)
    assert (task.done(), board.read().in_flight) == (False, 0)
    task.cancel()


async def test_health_is_answered_and_not_counted_in_every_mode(board: Board) -> None:
    gate = Gate(answer)
    for mode in Mode:
        board.set_mode(mode)
        client = Client()
        await gate(http("/health"), client.receive, client.send)
        assert client.status == 200
    assert sum(board.read().ended.values()) == 0
