"""Answers what comes to the models' ports. I/O: the clients' connections.

The port alone says which model is meant. While workers serve, a request is passed on; at zero what asks for the
engine's work waits, and the rest is answered here.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from modelfleet.activator import passing
from modelfleet.activator.line import Line, Place, Surroundings, Worker
from modelfleet.activator.meter import Meter
from modelfleet.api import names
from modelfleet.core.activation import answers
from modelfleet.core.activation.headers import handed_on
from modelfleet.core.activation.holding import Verdict

_WHOLE_BYTES = 65536
"""A body of at most so many bytes is read before it is passed on; a longer one is passed on as it comes."""

_WHOLE_S = 60.0
"""So long such a body may take."""

_EVENT_STREAM = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",  # nginx before us would keep the comments
}


@dataclass(frozen=True)
class Terms:
    """How clients are treated. `comment_s`: seconds between two comments of a stream that waits."""

    token: str
    comment_s: float = 15.0


@dataclass
class _Exchange:
    """One request on its way. `begun`: a stream whose status was sent while it waited."""

    request: web.BaseRequest
    line: Line
    arrived_s: float
    at_zero: bool
    body: bytes | None = None
    begun: web.StreamResponse | None = None
    place: Place | None = None
    invited: bool = False

    @property
    def key(self) -> tuple[str, str]:
        return self.line.model.key


class Front:
    """The handler of every model's port."""

    def __init__(
        self,
        line_at: Callable[[int], Line | None],
        pass_on: passing.Passing,
        terms: Terms,
        around: Surroundings,
        meter: Meter,
    ) -> None:
        self._line_at, self._pass_on, self._terms, self._around, self._meter = line_at, pass_on, terms, around, meter
        self.active = 0
        """Requests that are not answered to their end."""
        self.closing = False
        """This activator ends: clients are told to connect anew, and so go elsewhere."""

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answers one request."""
        self.active += 1
        try:
            response = await self._answer(request)
        except web.RequestPayloadError:
            response = _json(answers.error_body(request.path, 400, "the body is not what the headers say"), 400)
        except _TooSlowError:
            said = f"the body did not come within {_WHOLE_S:g} s"
            response = _json(answers.error_body(request.path, 408, said), 408)
            response.force_close()
        finally:
            self.active -= 1
        if self.closing:
            response.force_close()
        return response

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        line = self._line_at(_port(request))
        if line is None:
            return _moved(request.path)
        if request.path == names.ACTIVATOR_PROBE_PATH:
            return _json(answers.identity(line.model, self._around.activator))
        if not answers.wakes(request.method, request.path):
            return await self._aside(request, line)
        exchange = _Exchange(request, line, asyncio.get_running_loop().time(), at_zero=not line.serving)
        if line.serving:
            await self._read_short(exchange)
        worker = line.worker()
        if worker is not None:
            with contextlib.suppress(passing.NotConnectedError):
                return await self._through(exchange, worker)
        return await self._held(exchange)

    # What wakes nothing

    async def _aside(self, request: web.BaseRequest, line: Line) -> web.StreamResponse:
        exchange = _Exchange(request, line, asyncio.get_running_loop().time(), at_zero=False)
        model, passes = line.model, _target(request) is not None
        if line.workers and passes:
            await self._read_short(exchange)
        for _ in range(len(line.workers) if passes else 0):
            worker = line.any_worker()
            if worker is None:
                break
            with contextlib.suppress(passing.NotConnectedError):
                return await self._through(exchange, worker)
        if request.method in ("GET", "HEAD") and request.path == "/v1/models":
            return _json(answers.models(model))
        if request.method in ("GET", "HEAD") and request.path == "/health":
            return web.Response()
        when = f" while {model.served_names[0]} is at zero" if passes else ""
        said = f"{request.method} {request.path} is not served here{when}"
        return _json(answers.error_body(request.path, 404, said), 404)

    # Waiting

    async def _held(self, exchange: _Exchange) -> web.StreamResponse:
        """Waits for a worker, again if it cannot be reached, and goes there."""
        line = exchange.line
        verdict = line.decide(exchange.request.content_length or 0)
        if not verdict.held:
            return await self._refuse(exchange, verdict)
        while True:
            place = line.enter(exchange.arrived_s, first=exchange.place is not None)
            exchange.place = place
            try:
                outcome = await self._turn(exchange, place)
            except BaseException as error:
                line.abandon(place)
                if isinstance(error, asyncio.CancelledError | ConnectionError):
                    self._meter.gone(exchange.key)
                raise
            line.leave(place)
            if isinstance(outcome, Verdict):
                return await self._refuse(exchange, outcome)
            self._meter.waited(exchange.key, asyncio.get_running_loop().time() - exchange.arrived_s)
            with contextlib.suppress(passing.NotConnectedError):
                return await self._through(exchange, outcome)

    async def _turn(self, exchange: _Exchange, place: Place) -> Worker | Verdict:
        if exchange.body is None:
            refused = await self._read_in_time(exchange, place)
            if refused is not None:
                return refused
            if exchange.body is None:
                return place.outcome.result()
        else:
            exchange.line.grow(place, len(exchange.body))  # it was held before, so it is held now
        exchange.line.ready(place)
        if not answers.wants_stream(exchange.request.path, exchange.body or b""):
            return await place.outcome
        while True:
            done, _ = await asyncio.wait({place.outcome}, timeout=self._terms.comment_s)
            if done:
                return place.outcome.result()
            if exchange.begun is None:
                exchange.begun = web.StreamResponse(headers=_EVENT_STREAM)
                _unsized(exchange.request, exchange.begun)
                await exchange.begun.prepare(exchange.request)
            await exchange.begun.write(answers.waiting_comment(exchange.line.model, self._around.now()))

    async def _read_in_time(self, exchange: _Exchange, place: Place) -> Verdict | None:
        """Reads the body, unless the place is lost before it is whole: by the deadline, or by a start that fails."""
        reading = asyncio.ensure_future(self._read(exchange, place))
        try:
            either: set[asyncio.Future[Any]] = {reading, place.outcome}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            return reading.result() if reading.done() else None
        finally:
            reading.cancel()

    async def _read(self, exchange: _Exchange, place: Place) -> Verdict | None:
        """The body, as far as it may be held."""
        pieces = []
        await _invite(exchange)
        async for piece in exchange.request.content.iter_any():
            refused = exchange.line.grow(place, len(piece))
            if refused is not None:
                return refused
            pieces.append(piece)
        exchange.body = b"".join(pieces)
        return None

    async def _refuse(self, exchange: _Exchange, verdict: Verdict) -> web.StreamResponse:
        self._meter.refused(exchange.key, verdict.reason)
        path, begun = exchange.request.path, exchange.begun
        if begun is None:
            return _plain(path, verdict)
        await begun.write(answers.error_event(path, verdict.status, verdict.message, verdict.retry_after_s))
        await begun.write_eof()
        return begun

    # Passing on

    async def _read_short(self, exchange: _Exchange) -> None:
        """Reads a short body before a worker is chosen, so that a client which dawdles takes none's room; a long one is
        left to be passed on as it comes. Raises _TooSlowError."""
        request = exchange.request
        await _invite(exchange)
        if not request.body_exists:
            exchange.body = b""
        elif request.content_length is not None and request.content_length <= _WHOLE_BYTES:
            try:
                async with asyncio.timeout(_WHOLE_S):
                    exchange.body = await request.read()
            except TimeoutError:
                raise _TooSlowError from None

    async def _through(self, exchange: _Exchange, worker: Worker) -> web.StreamResponse:
        """To a worker and back. Raises NotConnectedError, then the request may go elsewhere."""
        request, line = exchange.request, exchange.line
        spent_s = asyncio.get_running_loop().time() - exchange.arrived_s
        headers = handed_on(request.headers.items(), self._terms.token, spent_s, at_zero=exchange.at_zero)
        body = (exchange.body or None) if exchange.body is not None else request.content.iter_any()
        target, moves = _target(request) or "/", self.closing or not line.stands_in
        out = passing.Outgoing(request.method, target, request.path, headers, body, closing=moves)
        try:
            response = await self._pass_on(request, out, worker.address, exchange.begun)
        except passing.NotConnectedError:
            line.shun(worker)
            self._meter.unreachable(exchange.key)
            raise
        except passing.UnansweredError as error:
            self._meter.broken(exchange.key, "worker")
            return await self._say_unanswered(exchange, str(error))
        except passing.BrokenError:
            self._meter.broken(exchange.key, "worker")
            await passing.drop(request)
            raise ConnectionResetError("the worker's connection broke") from None
        except (asyncio.CancelledError, ConnectionError):
            self._meter.broken(exchange.key, "client")
            raise
        finally:
            line.done(worker)
        self._meter.passed(exchange.key)
        return response

    async def _say_unanswered(self, exchange: _Exchange, said: str) -> web.StreamResponse:
        path, begun = exchange.request.path, exchange.begun
        if begun is None:
            return _json(answers.error_body(path, 502, said), 502)
        await begun.write(answers.error_event(path, 502, said))
        await begun.write_eof()
        return begun


class _TooSlowError(Exception):
    """A short body did not come."""


def _target(request: web.BaseRequest) -> str | None:
    """The path and query that a worker is asked for; None where the client names none (CONNECT, OPTIONS *)."""
    if request.raw_path.startswith("/"):
        return request.raw_path
    whole = request.rel_url.raw_path_qs  # of an address that a client writes for a proxy
    return whole if whole.startswith("/") else None


def _moved(path: str) -> web.Response:
    """To a connection that stands although its port is closed, because the model has another or is gone."""
    response = _json(answers.error_body(path, 503, "no model is reached by this connection any longer"), 503)
    response.headers["Retry-After"] = "1"
    response.force_close()
    return response


def _port(request: web.BaseRequest) -> int:
    """The port that the client came to."""
    name = request.get_extra_info("sockname")
    return int(name[1]) if name else 0


async def _invite(exchange: _Exchange) -> None:
    """Asks for the body where the client waits to be asked (RFC 9110, 10.1.1); who is refused need not send it."""
    asked = exchange.request.headers.get("Expect", "").lower() == "100-continue"
    if asked and not exchange.invited and exchange.request.version >= (1, 1):
        exchange.invited = True
        writer = exchange.request.writer
        await writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        writer.output_size = 0  # none of it is the answer's


def _unsized(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """An answer without a length: chunks, or for HTTP/1.0 until the connection ends."""
    if request.version >= (1, 1):
        response.enable_chunked_encoding()
    else:
        response.force_close()


def _plain(path: str, verdict: Verdict) -> web.Response:
    body = answers.error_body(path, verdict.status, verdict.message)
    return web.Response(status=verdict.status, body=body, headers=answers.refusal_headers(verdict))


def _json(body: bytes, status: int = 200) -> web.Response:
    return web.Response(status=status, body=body, headers={"Content-Type": "application/json"})
