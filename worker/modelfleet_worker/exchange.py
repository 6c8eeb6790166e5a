"""One request and its answer, watched as ASGI messages pass. Standard library only (the engine's Python)."""

import time
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from typing import Any

from modelfleet_worker.gate_state import Outcome
from modelfleet_worker.goodput import Ending
from modelfleet_worker.ledger import Request

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

RETRY_AFTER = (b"retry-after", b"1")
"""By then no Service routes to a pod that drains, and one that is full has got through a second of its queue."""
_AT_ONCE_S = 0.002  # what was there when it was asked for comes without a wait
_ERROR_EVENTS = (b'data: {"error":', b"event: error\n", b"event: response.failed\n")
"""How vLLM tells a stream that it failed: OpenAI's completions, Anthropic's messages, OpenAI's responses."""


class Exchange:
    """Watches one exchange. `close` makes the client close its connection afterwards. `uploads` is the request while
    its body may not have come; `came` is called if it took its client a while to send it."""

    def __init__(
        self,
        receive: Receive,
        send: Send,
        *,
        close: bool,
        uploads: Request | None = None,
        came: Callable[[], None] = lambda: None,
    ) -> None:
        self._receive, self._send, self._close = receive, send, close
        self._uploads, self._came, self._in_parts = uploads, came, False
        self._status, self._whole, self._error = 0, False, False
        self.left = False  # the client went away before the answer was whole

    async def receive(self) -> Message:
        """What the engine's app is given to read."""
        message = await (self._receive() if self._uploads is None else self._part(self._uploads))
        if message["type"] == "http.disconnect" and not self._whole:
            self.left = True
        return message

    async def _part(self, request: Request) -> Message:
        """The next part of a body. While its client sends it, nobody waits for us."""
        request.uploading, began_s = True, time.monotonic()
        message = await self._receive()
        if message["type"] == "http.request" and not message.get("more_body", False):
            request.uploading, self._uploads = False, None
            if self._in_parts or time.monotonic() - began_s > _AT_ONCE_S:
                self._came()
        self._in_parts = True
        return message

    def send(self, message: Message) -> Awaitable[None]:
        """What the engine's app is given to write. A chunk within a stream costs no coroutine of ours."""
        if message["type"] == "http.response.start":
            return self._send(self._start(message))
        if message["type"] != "http.response.body":
            return self._send(message)
        if message.get("body", b"").startswith(_ERROR_EVENTS):
            self._error = True
        return self._send(message) if message.get("more_body", False) else self._last(message)

    def _start(self, message: Message) -> Message:
        self._status = message["status"]
        headers = list(message.get("headers", ()))
        if self._close:
            headers.append((b"connection", b"close"))
        if self._status == 503 and not any(name.lower() == b"retry-after" for name, _ in headers):
            headers.append(RETRY_AFTER)  # vLLM refuses without one
        return {**message, "headers": headers}

    def _last(self, message: Message) -> Coroutine[Any, Any, None]:
        async def last() -> None:
            await self._send(message)
            self._whole = True

        return last()

    @property
    def _failed(self) -> bool:
        return not self._whole or self._status >= 500 or self._error

    def outcome(self) -> Outcome:
        """How it ended, as far as HTTP tells."""
        if self._failed:
            return Outcome.SERVER_ERROR
        return Outcome.CLIENT_ERROR if self._status >= 400 else Outcome.COMPLETED

    def ending(self, request: Request) -> Ending:
        """How it ended, by HTTP and by the engine's word."""
        if self.left:
            return Ending.ABORTED
        if request.refused and (self._failed or not request.sequences):
            return Ending.REFUSED
        if self._failed or (request.sequences and not request.finished and self._status < 400):
            return Ending.FAILED
        if self._status >= 400:
            return Ending.INVALID
        return Ending.FINISHED if request.sequences else Ending.UNMEASURED
