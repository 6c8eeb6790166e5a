"""The ASGI layer around the engine's API: listed paths only; counts requests, judges them by the promise; closes and
refuses in a drain.

The engine loads it by name (`--middleware modelfleet_worker.gate.Gate`) into each API-server process, outermost.
Standard library only.
"""

import json
import logging
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from modelfleet_worker.asked import Asked, asked
from modelfleet_worker.exchange import RETRY_AFTER, App, Exchange, Receive, Scope, Send
from modelfleet_worker.gate_state import FOLDER_VARIABLE, TOKEN_VARIABLE, Counter, Mode, ModeReader, Outcome
from modelfleet_worker.goodput import Ending
from modelfleet_worker.hold import Holder
from modelfleet_worker.ledger import Request, following
from modelfleet_worker.promise import Promise
from modelfleet_worker.pulse import Pulse, monotonic_ns, waited_s
from modelfleet_worker.tally import Tally

_GENERATES = re.compile(r"/v1/(chat/completions|completions|messages|responses)")
"""What generates, when it is POSTed to: these requests are judged by the promise."""
_SERVED = re.compile(
    r"/v1/(chat/completions|completions|models|messages|messages/count_tokens|responses|responses/[^/]+(/cancel)?)"
    r"|/tokenize|/detokenize"
)
"""What the network may call: generation, as OpenAI and Anthropic clients do it, and the tokenizer.

Everything else is hidden, above all what changes the engine (adapters, scaling, pausing, profiling, developer paths).
"""
_HEALTH = "/health"  # for load balancers; says nothing but up or down, and is not counted
_log = logging.getLogger(__name__)
_METRICS = "/metrics"  # shows everyone's traffic: the supervisor alone reads it here and serves it on the status port


class Gate:
    """Wraps `app`. Refuses WebSockets, since no listed path is one."""

    def __init__(self, app: App) -> None:
        self._folder = Path(os.environ[FOLDER_VARIABLE])
        self._app = app
        self._token = os.environ[TOKEN_VARIABLE].encode()
        self._mode = ModeReader(self._folder)
        self._counter = Counter(self._folder)
        self._pulse = Pulse(self._counter.waits)
        self._tally: Tally | None = None
        self._holder = Holder(self._folder, app)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._http(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        served = _SERVED.fullmatch(path) is not None
        said, inner = asked(scope, self._token, self._mode.promise)
        if path == _HEALTH or (said.supervisor and path == _METRICS):
            await self._app(inner, receive, send)
        elif served and said.supervisor:
            await self._probed(inner, receive, send)
        elif not served:
            await _answer(send, 404, "NotFoundError", f"{path} is not served here")
        elif scope.get("method") == "POST" and _GENERATES.fullmatch(path):
            await self._judged(inner, receive, send, said)
        else:
            await self._counted(inner, receive, send, None)

    async def _probed(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request of the supervisor's: no client's, and it shows whether the engine tells us of its sequences."""
        request = Request(time.time(), monotonic_ns(0.0))
        with following(request):
            await self._app(scope, receive, send)
            if request.finished:
                self._counter.measured()

    async def _judged(self, scope: Scope, receive: Receive, send: Send, said: Asked) -> None:
        waited = waited_s(receive)
        self._counter.entered(waited)
        before_s = waited + said.spent_s
        request = Request(time.time() - before_s, monotonic_ns(before_s))

        def came() -> None:
            """Its body came after its head, so it entered when that was whole."""
            since_s = waited_s(receive) + said.spent_s
            request.enters(time.time() - since_s, monotonic_ns(since_s))

        promise = self._mode.promise
        tally = self._tally_of(promise)
        index = tally.begin(said.objective) if tally is not None else 0
        self._pulse.begin(request)
        with following(request), self._holder.turn(scope, promise.hold if promise is not None else None):
            try:
                await self._counted(scope, receive, send, request, came)
            finally:
                self._pulse.end(request)
                if tally is not None:
                    tally.end(index, request, at_zero=said.at_zero)

    async def _counted(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        request: Request | None,
        came: Callable[[], None] = lambda: None,
    ) -> None:
        # Counted before the mode is read: the supervisor sets the mode and then reads the count, so none slips through.
        self._counter.begin()
        mode = self._mode()
        if mode is Mode.REFUSE:
            self._counter.end(Outcome.REFUSED)
            if request is not None:
                request.ending = Ending.REFUSED
            await _refuse(receive, send)
            return
        exchange = Exchange(receive, send, close=mode is Mode.CLOSE, uploads=request, came=came)
        outcome = Outcome.SERVER_ERROR
        try:
            await self._app(scope, exchange.receive, exchange.send)
            outcome = exchange.outcome()
        finally:
            self._counter.end(Outcome.ABORTED if exchange.left else outcome)
            if request is not None:
                request.ending = exchange.ending(request)

    def _tally_of(self, promise: Promise | None) -> Tally | None:
        if promise is None:
            return None
        if self._tally is None or self._tally.promise != promise:
            try:
                self._tally = Tally(self._folder, promise)
            except OSError as error:  # answering counts more than counting; the next request tries again
                _log.error("a request is not judged by the promise: %s", error)
                return None
        return self._tally


async def _refuse(receive: Receive, send: Send) -> None:
    """503. The body is read first: a client that still sends when the connection closes would not see the answer."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        if not message.get("more_body", False):
            break
    text = "this replica is shutting down; try again"
    await _answer(send, 503, "ServiceUnavailableError", text, RETRY_AFTER, (b"connection", b"close"))


async def _answer(send: Send, status: int, kind: str, text: str, *headers: tuple[bytes, bytes]) -> None:
    """An error as OpenAI clients read it."""
    body = json.dumps({"error": {"message": text, "type": kind, "param": None, "code": status}}).encode()
    length = str(len(body)).encode()
    fields = [(b"content-type", b"application/json"), (b"content-length", length), *headers]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})
