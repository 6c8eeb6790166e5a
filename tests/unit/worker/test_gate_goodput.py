"""What the gate counts of one request, with an engine that tells the ledger what vLLM would."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from test_gate import CHAT, TOKEN, Client, http

from modelfleet_worker import ledger
from modelfleet_worker.gate import Gate
from modelfleet_worker.gate_state import FOLDER_VARIABLE, TOKEN_VARIABLE, Board, Mode
from modelfleet_worker.goodput import Share, Verdict
from modelfleet_worker.promise import Objective, Promise
from modelfleet_worker.tally import ObjectiveCounts, read_tally

CALLER = b"of the activator"
PROMISE = Promise(
    digest="0123456789ab",
    objectives=(
        Objective(name="chat", ttft_s=0.5, tpot_s=0.05, first_caller_waits_s=60.0),
        Objective(name="batch", ttft_s=100.0, tpot_s=100.0),
    ),
    callers=frozenset({sha256(CALLER).hexdigest()}),
)
TEXT = (
    '{"digest": "0123456789ab", "objectives": ['
    ' {"name": "chat", "ttft_s": 0.5, "tpot_s": 0.05, "firstCallerWaits_s": 60},'
    ' {"name": "batch", "ttft_s": 100, "tpot_s": 100}], "callers": ["' + sha256(CALLER).hexdigest() + '"]}'
)
App = Callable[[Any, Any, Any], Awaitable[None]]


class Notes:
    """An engine's notes of a sequence, in round numbers."""

    def __init__(self, first_s: float = 0.0, tokens: int = 3, gap_s: float = 0.0) -> None:
        self.arrival_time, self.first_token_latency = 0.0, first_s
        self.first_token_ts, self.last_token_ts = 5.0, 5.0 + gap_s * (tokens - 1)
        self.num_generation_tokens = tokens


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Board:
    board = Board(tmp_path / "gate")
    board.set_promise(PROMISE, TEXT)
    monkeypatch.setenv(FOLDER_VARIABLE, str(board.folder))
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    return board


def engine(*notes: Notes, reason: str = "length", status: int = 200, body: bytes = b"end") -> App:
    """Generates one sequence a note and answers."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        for one in notes:
            one.arrival_time = time.time()
            ledger.sequence_added(one, 7)
        for one in notes:
            ledger.sequence_finished(one, reason)
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b"data: {}\n\n", "more_body": True})
        await send({"type": "http.response.body", "body": body})

    return app


async def refuses(scope: Any, receive: Any, send: Any) -> None:
    ledger.refused()
    await engine(status=503)(scope, receive, send)


async def refuses_within_a_stream(scope: Any, receive: Any, send: Any) -> None:
    ledger.refused()
    await engine(body=b'data: {"error": {"code": 503}}\n\n')(scope, receive, send)


async def dies(scope: Any, receive: Any, send: Any) -> None:
    ledger.sequence_added(Notes(), 7)
    raise RuntimeError("of the engine")


async def is_left(scope: Any, receive: Any, send: Any) -> None:
    notes = Notes()
    notes.arrival_time = time.time()
    ledger.sequence_added(notes, 7)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    while (await receive())["type"] != "http.disconnect":
        pass
    raise asyncio.CancelledError


async def is_left_waiting(scope: Any, receive: Any, send: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    raise asyncio.CancelledError


async def ends_early(scope: Any, receive: Any, send: Any) -> None:
    """vLLM's engine aborts what runs when it is shut down: the sequence never finishes."""
    ledger.sequence_added(Notes(), 7)
    await engine()(scope, receive, send)


async def ask(app: App, *headers: tuple[bytes, bytes], **more: Any) -> None:
    client = Client({"type": "http.request", "body": b"", "more_body": False}, {"type": "http.disconnect"})
    await asyncio.gather(Gate(app)(http(CHAT, *headers, **more), client.receive, client.send), return_exceptions=True)


def of(board: Board, name: str = "chat") -> ObjectiveCounts:
    return next(one for one in read_tally(board.folder, PROMISE).objectives if one.name == name)


def ended(board: Board, share: Share = Share.PROMISE, name: str = "chat") -> dict[str, int]:
    return {verdict.value: count for verdict, count in of(board, name).ended[share].items() if count}


@pytest.mark.parametrize(
    ("app", "verdict"),
    [
        pytest.param(engine(Notes()), Verdict.MET, id="a good answer"),
        pytest.param(engine(Notes(first_s=0.6)), Verdict.LATE_TTFT, id="a late first token"),
        pytest.param(engine(Notes(gap_s=0.06)), Verdict.LATE_TPOT, id="slow tokens"),
        pytest.param(engine(Notes(), Notes(), Notes()), Verdict.MET, id="three answers of one request"),
        pytest.param(engine(Notes(), Notes(gap_s=0.06)), Verdict.LATE_TPOT, id="one slow answer of two"),
        pytest.param(
            engine(Notes(), body=b'data: {"error": {}}\n\n'), Verdict.FAILED, id="an error event within a stream"
        ),
        pytest.param(engine(Notes(), body=b"event: error\ndata: {}\n\n"), Verdict.FAILED, id="as Anthropic's has it"),
        pytest.param(engine(Notes(), reason="error"), Verdict.FAILED, id="an end that the engine calls an error"),
        pytest.param(ends_early, Verdict.FAILED, id="a stream that ends well before the engine has finished"),
        pytest.param(engine(status=500), Verdict.FAILED, id="a 500"),
        pytest.param(dies, Verdict.FAILED, id="an exception"),
        pytest.param(refuses, Verdict.REFUSED, id="a refusal by the engine's admission"),
        pytest.param(refuses_within_a_stream, Verdict.REFUSED, id="a refusal within a stream"),
        pytest.param(engine(status=400), Verdict.INVALID, id="a request that is none"),
        pytest.param(is_left, Verdict.ABORTED, id="a client that leaves a stream"),
        pytest.param(engine(), Verdict.UNMEASURED, id="an answer without a sequence"),
    ],
)
async def test_is_counted_once_as(board: Board, app: App, verdict: Verdict) -> None:
    await ask(app)
    assert (of(board).arrivals, of(board).in_flight, ended(board)) == (1, 0, {verdict.value: 1})


@pytest.mark.parametrize(
    ("app", "spent_ms", "verdict"),
    [
        pytest.param(is_left_waiting, b"0", "aborted", id="before its first token, which was not late yet"),
        pytest.param(is_left_waiting, b"600", "failed", id="before its first token, which was late"),
        pytest.param(is_left, b"0", "aborted", id="after a first token in time"),
        pytest.param(is_left, b"600", "failed", id="after a late one"),
    ],
)
async def test_a_client_that_leaves(board: Board, app: App, spent_ms: bytes, verdict: str) -> None:
    names = {b"spent-ms": spent_ms, b"caller": CALLER}
    await ask(app, *((b"x-modelfleet-" + name, value) for name, value in names.items()))
    assert ended(board) == {verdict: 1}


async def test_an_arrival_in_the_last_step_of_a_drain_was_refused(board: Board) -> None:
    board.set_mode(Mode.REFUSE)
    await ask(engine(Notes()))
    assert ended(board) == {"refused": 1}


async def test_the_engine_s_refusal_is_given_a_time_to_come_again(board: Board) -> None:
    client = Client()
    await Gate(refuses)(http(CHAT), client.receive, client.send)
    assert (client.status, client.headers[b"retry-after"]) == (503, b"1")


@pytest.mark.parametrize(
    ("header", "name", "unknown"),
    [
        pytest.param(None, "chat", 0, id="without a header the first"),
        pytest.param(b"batch", "batch", 0, id="the one that is named"),
        pytest.param(b"nobody", "chat", 1, id="for an unknown name the first, and that is counted"),
    ],
)
async def test_the_objective_is(board: Board, header: bytes | None, name: str, unknown: int) -> None:
    await ask(engine(Notes()), *([(b"x-modelfleet-objective", header)] if header else []))
    assert (ended(board, name=name), read_tally(board.folder, PROMISE).unknown_names) == ({"met": 1}, unknown)


@pytest.mark.parametrize(
    ("headers", "share", "verdict"),
    [
        pytest.param({b"spent-ms": b"600", b"caller": CALLER}, Share.PROMISE, "late_ttft", id="counts its time"),
        pytest.param({b"spent-ms": b"600", b"caller": b"guess"}, Share.PROMISE, "met", id="is not anybody"),
        pytest.param({b"spent-ms": b"600"}, Share.PROMISE, "met", id="has to say who it is"),
        pytest.param({b"spent-ms": b"soon", b"caller": CALLER}, Share.PROMISE, "met", id="has to give a number"),
        pytest.param(
            {b"spent-ms": b"59000", b"at-zero": b"true", b"caller": CALLER},
            Share.FIRST_CALLER,
            "met",
            id="tells of zero",
        ),
        pytest.param({b"at-zero": b"true"}, Share.PROMISE, "met", id="alone may tell of zero"),
    ],
)
async def test_a_known_caller(board: Board, headers: dict[bytes, bytes], share: Share, verdict: str) -> None:
    await ask(engine(Notes()), *((b"x-modelfleet-" + name, value) for name, value in headers.items()))
    assert ended(board, share) == {verdict: 1}


async def test_the_engine_sees_no_header_of_ours(board: Board) -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.extend(scope["headers"])
        await engine(Notes())(scope, receive, send)

    await ask(app, (b"x-modelfleet-caller", CALLER), (b"x-modelfleet-spent-ms", b"1"), (b"accept", b"*/*"))
    assert seen == [(b"accept", b"*/*")]


@pytest.mark.parametrize(
    ("path", "method"),
    [
        pytest.param("/v1/models", "GET", id="a list of models"),
        pytest.param("/tokenize", "POST", id="the tokenizer"),
        pytest.param("/v1/messages/count_tokens", "POST", id="a count of tokens"),
        pytest.param("/v1/responses/resp_1/cancel", "POST", id="a cancellation"),
        pytest.param(CHAT, "GET", id="a wrong method"),
    ],
)
async def test_is_not_judged(board: Board, path: str, method: str) -> None:
    client = Client()
    await Gate(engine())(http(path) | {"method": method}, client.receive, client.send)
    assert of(board).arrivals == 0


async def test_a_changed_promise_counts_for_arrivals_from_then_on(board: Board) -> None:
    later = Promise(digest="ba9876543210", objectives=(Objective(name="chat", ttft_s=0.001, tpot_s=0.05),))
    gates: list[Gate] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if not of(board).ended[Share.PROMISE][Verdict.MET] and len(gates) == 1:
            gates.append(gates[0])
            text = '{"digest": "ba9876543210", "objectives": [{"name": "chat", "ttft_s": 0.001, "tpot_s": 0.05}]}'
            board.set_promise(later, text)
            client = Client()
            await gates[0](http(CHAT), client.receive, client.send)
        await engine(Notes(first_s=0.1))(scope, receive, send)

    gates.append(Gate(app))
    client = Client()
    await gates[0](http(CHAT), client.receive, client.send)
    assert ended(board) == {"met": 1}
    (chat,) = read_tally(board.folder, later).objectives
    assert (chat.arrivals, chat.ended[Share.PROMISE][Verdict.LATE_TTFT]) == (1, 1)


async def test_without_a_promise_requests_are_answered_and_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = Board(tmp_path / "bare")
    monkeypatch.setenv(FOLDER_VARIABLE, str(bare.folder))
    monkeypatch.setenv(TOKEN_VARIABLE, TOKEN)
    await ask(engine(Notes()))
    assert (sum(bare.read().ended.values()), list(bare.folder.glob("goodput-*"))) == (1, [])


async def until(holds: Callable[[], bool]) -> None:
    """Waits for another task's doing; a test that needs all of its patience has failed."""
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 (numbers in a file have no event)
            await asyncio.sleep(0.01)


async def test_a_request_waits_until_its_first_token(board: Board) -> None:
    notes, may_end = Notes(tokens=0), asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        ledger.sequence_added(notes, 7)
        await may_end.wait()
        await engine()(scope, receive, send)

    running = asyncio.create_task(ask(app))
    await until(lambda: board.read().waiting == 1)
    assert 0 < board.read().oldest_ns <= time.monotonic_ns()
    notes.num_generation_tokens = 1
    await until(lambda: board.read().waiting == 0)
    assert (board.read().oldest_ns, board.read().in_flight) == (0, 1)
    may_end.set()
    await running


async def test_the_supervisor_s_request_shows_that_the_engine_tells_of_sequences(board: Board) -> None:
    for notes, probes in (((), 0), ((Notes(),), 1)):
        client = Client()
        await Gate(engine(*notes))(
            http(CHAT, (b"x-modelfleet-supervisor", TOKEN.encode())), client.receive, client.send
        )
        assert (board.read().probes, of(board).arrivals) == (probes, 0)


class _Slow:
    """A client that sends its body in two parts, the second one when it may."""

    def __init__(self) -> None:
        self.may_send = asyncio.Event()
        self._parts = [{"type": "http.request", "body": b"{", "more_body": True}]

    async def receive(self) -> Any:
        if self._parts:
            return self._parts.pop()
        await self.may_send.wait()
        return {"type": "http.request", "body": b"}", "more_body": False}


async def test_a_client_that_has_not_sent_all_of_its_request_waits_for_nothing_and_is_not_late_by_that(
    board: Board,
) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["more_body"]:
            pass
        await engine(Notes())(scope, receive, send)

    client = _Slow()
    running = asyncio.create_task(Gate(app)(http(CHAT), client.receive, Client().send))
    await until(lambda: board.read().in_flight == 1)
    await asyncio.sleep(0.6)  # longer than the promise allows
    assert (board.read().waiting, board.read().oldest_ns) == (0, 0)
    client.may_send.set()
    await running
    assert ended(board) == {"met": 1}
