"""What a chaos proxy does to requests, each fault by its name."""

import asyncio
import itertools
import json
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from chaos_proxy import Dropped, Fault, Forward, is_watch, is_write


@dataclass(frozen=True)
class Case:
    """A fault; `hold`: open watches stay open and show nothing while it lasts."""

    fault: Fault
    hold: bool = False


def refusal(code: int, headers: dict[str, str] | None = None) -> web.Response:
    """The Status object with which an API server refuses."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": f"chaos: {code}"}
    return web.json_response(body, status=code, headers=headers)


def always(code: int, **headers: str) -> Fault:
    async def fault(request: web.Request, forward: Forward) -> web.StreamResponse:
        return refusal(code, {key.replace("_", "-"): value for key, value in headers.items()})

    return fault


def every_second(code: int, *, writes: bool = False) -> Fault:
    """Every second request (or write) is refused."""
    turns = itertools.cycle((True, False))

    async def fault(request: web.Request, forward: Forward) -> web.StreamResponse:
        if (is_write(request) or not writes) and next(turns):
            return refusal(code)
        return await forward()

    return fault


def writes_only(code: int) -> Fault:
    async def fault(request: web.Request, forward: Forward) -> web.StreamResponse:
        return (
            refusal(code) if is_write(request) and not request.path.endswith("/leases/modelfleet") else await forward()
        )

    return fault


async def cut_watches(request: web.Request, forward: Forward) -> web.StreamResponse:
    """A watch is answered and ends at once."""
    if not is_watch(request):
        return await forward()
    return web.Response(body=b"", content_type="application/json")


async def torn_watches(request: web.Request, forward: Forward) -> web.StreamResponse:
    """A watch ends in the middle of an event."""
    if not is_watch(request):
        return await forward()
    return web.Response(body=b'{"type":"MODIFIED","object":{"meta', content_type="application/json")


def watch_refused(code: int) -> Fault:
    async def fault(request: web.Request, forward: Forward) -> web.StreamResponse:
        return refusal(code) if is_watch(request) else await forward()

    return fault


def error_event(code: int) -> Fault:
    """A watch begins and then tells of an error."""

    async def fault(request: web.Request, forward: Forward) -> web.StreamResponse:
        if not is_watch(request):
            return await forward()
        status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
        line = json.dumps({"type": "ERROR", "object": status | {"message": f"chaos: {code}", "reason": "Expired"}})
        return web.Response(body=line.encode() + b"\n", content_type="application/json")

    return fault


async def never(request: web.Request, forward: Forward) -> web.StreamResponse:
    """The request is swallowed: there is no answer, not even after the fault."""
    await asyncio.sleep(600)
    raise Dropped


async def slow(request: web.Request, forward: Forward) -> web.StreamResponse:
    await asyncio.sleep(2)
    return await forward()


async def answer_lost(request: web.Request, forward: Forward) -> web.StreamResponse:
    """The server does what is asked, and the connection breaks before it can say so."""
    if not is_watch(request):
        await forward()
    raise Dropped


async def truncated(request: web.Request, forward: Forward) -> web.StreamResponse:
    """Half an answer under a header that calls it whole."""
    response = await forward()
    if isinstance(response, web.Response) and isinstance(response.body, bytes):
        headers = {key: value for key, value in response.headers.items() if key.lower() != "content-length"}
        return web.Response(status=response.status, headers=headers, body=response.body[: len(response.body) // 2])
    return response


async def no_json(request: web.Request, forward: Forward) -> web.StreamResponse:
    """A proxy's own page with status 200."""
    return web.Response(text="<html>please log in</html>", content_type="text/html")


FAULTS = {
    "429 with Retry-After": Case(always(429, Retry_After="1")),
    "500": Case(always(500)),
    "503": Case(always(503)),
    "504": Case(always(504)),
    "401": Case(always(401)),
    "403": Case(always(403)),
    "401 for every second request": Case(every_second(401)),
    "403 for every second request": Case(every_second(403)),
    "403 for every write": Case(writes_only(403)),
    "a conflict on every second write": Case(every_second(409, writes=True)),
    "watches that end at once": Case(cut_watches),
    "watches that end in the middle of an event": Case(torn_watches),
    "410 for every watch": Case(watch_refused(410)),
    "an ERROR event 410 in every watch": Case(error_event(410)),
    "an ERROR event 500 in every watch": Case(error_event(500)),
    "no answer": Case(never, hold=True),
    "slow answers": Case(slow),
    "lost answers": Case(answer_lost),
    "truncated JSON": Case(truncated),
    "a page instead of JSON": Case(no_json),
}
