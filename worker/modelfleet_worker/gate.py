"""The ASGI layer around the engine's API: listed paths only; counts what is in flight; closes and refuses in a drain.

The engine loads it by name (`--middleware modelfleet_worker.gate.Gate`) into each API-server process, outermost.
Standard library only.
"""

import json
import os
import re
from collections.abc import Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

from modelfleet_worker.gate_state import (
    FOLDER_VARIABLE,
    TOKEN_HEADER,
    TOKEN_VARIABLE,
    Counter,
    Mode,
    ModeReader,
    Outcome,
)

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_SERVED = re.compile(
    r"/v1/(chat/completions|completions|models|messages|messages/count_tokens|responses|responses/[^/]+(/cancel)?)"
    r"|/tokenize|/detokenize"
)
"""What the network may call: generation, as OpenAI and Anthropic clients do it, and the tokenizer.

Everything else is hidden, above all what changes the engine (adapters, scaling, pausing, profiling, developer paths).
"""
_HEALTH = "/health"  # for load balancers; says nothing but up or down, and is not counted
_METRICS = "/metrics"  # shows everyone's traffic: the supervisor alone reads it here and serves it on the status port
_RETRY_AFTER_S = b"1"  # by then no Service routes here, so a retry reaches another replica


class Gate:
    """Wraps `app`. Refuses WebSockets, since no listed path is one."""

    def __init__(self, app: App) -> None:
        folder = Path(os.environ[FOLDER_VARIABLE])
        self._app = app
        self._token = os.environ[TOKEN_VARIABLE].encode()
        self._mode = ModeReader(folder)
        self._counter = Counter(folder)

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
        supervisor = (TOKEN_HEADER.encode(), self._token) in scope["headers"]
        if path == _HEALTH or (supervisor and (served or path == _METRICS)):
            await self._app(scope, receive, send)
        elif served:
            await self._counted(scope, receive, send)
        else:
            await _answer(send, 404, "NotFoundError", f"{path} is not served here")

    async def _counted(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Counted before the mode is read: the supervisor sets the mode and then reads the count, so none slips through.
        self._counter.begin()
        mode = self._mode()
        if mode is Mode.REFUSE:
            self._counter.end(Outcome.REFUSED)
            await _refuse(receive, send)
            return
        exchange = _Exchange(receive, send, close=mode is Mode.CLOSE)
        outcome = Outcome.SERVER_ERROR
        try:
            await self._app(scope, exchange.receive, exchange.send)
            outcome = exchange.outcome()
        finally:
            self._counter.end(Outcome.ABORTED if exchange.left else outcome)


class _Exchange:
    """One request and its answer, watched."""

    def __init__(self, receive: Receive, send: Send, *, close: bool) -> None:
        self._receive, self._send, self._close = receive, send, close
        self._status, self._whole = 0, False
        self.left = False  # the client went away before the answer was whole

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect" and not self._whole:
            self.left = True
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            if self._close:
                message = {**message, "headers": [*message.get("headers", ()), (b"connection", b"close")]}
        await self._send(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self._whole = True

    def outcome(self) -> Outcome:
        if not self._whole or self._status >= 500:
            return Outcome.SERVER_ERROR
        return Outcome.CLIENT_ERROR if self._status >= 400 else Outcome.COMPLETED


async def _refuse(receive: Receive, send: Send) -> None:
    """503. The body is read first: a client that still sends when the connection closes would not see the answer."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        if not message.get("more_body", False):
            break
    text = "this replica is shutting down; try again"
    await _answer(
        send, 503, "ServiceUnavailableError", text, (b"retry-after", _RETRY_AFTER_S), (b"connection", b"close")
    )


async def _answer(send: Send, status: int, kind: str, text: str, *headers: tuple[bytes, bytes]) -> None:
    """An error as OpenAI clients read it."""
    body = json.dumps({"error": {"message": text, "type": kind, "param": None, "code": status}}).encode()
    length = str(len(body)).encode()
    fields = [(b"content-type", b"application/json"), (b"content-length", length), *headers]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})
