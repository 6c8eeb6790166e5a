"""A proxy between the operator and a real API server that does what networks and servers in trouble do."""

import asyncio
import base64
import json
import ssl
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from aiohttp import web
from yarl import URL

from modelfleet_local.pki import Authority

_HOP_BY_HOP = {"connection", "host", "keep-alive", "transfer-encoding", "content-length"}
Forward = Callable[[], Awaitable[web.StreamResponse]]
Fault = Callable[[web.Request, Forward], Awaitable[web.StreamResponse]]


class Dropped(Exception):  # noqa: N818 - what happens to a request, not an error of ours
    """The connection ends without an answer."""


class Chaos:
    """Terminates TLS on loopback and forwards to the API server of `kubeconfig`, through `fault` while one is set."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
        self._upstream = config["server"]
        self._trusts = ssl.create_default_context(
            cadata=base64.b64decode(config["certificate-authority-data"]).decode()
        )
        folder.mkdir(exist_ok=True)
        self._authority = Authority(folder, "chaos")
        serving = self._authority.server("chaos", ["127.0.0.1"])
        self._serves = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._serves.load_cert_chain(serving.certificate, serving.key)
        self.fault: Fault | None = None
        self.asked: list[tuple[float, str]] = []
        """Every request: when (monotonic seconds) and what, as `WATCH pods`."""
        self._flowing = asyncio.Event()
        self._watches: dict[int, web.Request] = {}
        self._loop = asyncio.new_event_loop()
        self._session: aiohttp.ClientSession
        self._runner: web.AppRunner
        self.port = 0
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._do(self._start())

    def kubeconfig(self, of: Path) -> Path:
        """A copy of a kubeconfig (one with a token) that leads here; its file lies beside the original."""
        config = yaml.safe_load(of.read_text())
        certificate = base64.b64encode(self._authority.certificate.read_bytes()).decode()
        config["clusters"][0]["cluster"] = {
            "server": f"https://127.0.0.1:{self.port}",
            "certificate-authority-data": certificate,
        }
        path = of.with_suffix(".chaos")
        path.write_text(json.dumps(config))
        return path

    def begin(self, fault: Fault, *, hold: bool = False) -> None:
        """From now on requests meet the fault. Open watches are cut; with `hold` they stay and show nothing."""
        self.fault = fault
        self._do(self._hold() if hold else self._cut())

    def end(self) -> None:
        """From now on everything passes."""
        self.fault = None
        self._do(self._let_flow())

    def cut_watches(self) -> None:
        """Ends every open watch, as a server does now and again."""
        self._do(self._cut())

    def count(self, since_s: float, until_s: float) -> Counter[str]:
        """The requests in a span of time."""
        return Counter(what for at_s, what in tuple(self.asked) if since_s <= at_s < until_s)

    def close(self) -> None:
        """Stops; nothing is answered any more."""
        self._do(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _start(self) -> None:
        connector = aiohttp.TCPConnector(limit=0, ssl=self._trusts)
        self._session = aiohttp.ClientSession(
            connector=connector, auto_decompress=False, timeout=aiohttp.ClientTimeout(total=None)
        )
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._serves)
        await site.start()
        self.port = self._runner.addresses[0][1]
        self._flowing.set()

    async def _stop(self) -> None:
        self._flowing.set()
        await self._cut()
        await self._session.close()
        await self._runner.cleanup()

    async def _hold(self) -> None:
        self._flowing.clear()

    async def _let_flow(self) -> None:
        self._flowing.set()

    async def _cut(self) -> None:
        for request in tuple(self._watches.values()):
            _hang_up(request)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((time.monotonic(), described(request)))
        fault = self.fault
        try:
            if fault is None:
                return await self._forward(request)
            return await fault(request, lambda: self._forward(request))
        except (Dropped, aiohttp.ClientError, ConnectionError):
            _hang_up(request)
            return web.Response(status=502)

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        headers = {key: value for key, value in request.headers.items() if key.lower() not in _HOP_BY_HOP}
        url = URL(self._upstream + request.raw_path, encoded=True)
        async with self._session.request(
            request.method, url, headers=headers, data=await request.read() or None
        ) as upstream:
            passed = {key: value for key, value in upstream.headers.items() if key.lower() not in _HOP_BY_HOP}
            if not is_watch(request):
                return web.Response(status=upstream.status, headers=passed, body=await upstream.read())
            response = web.StreamResponse(status=upstream.status, headers=passed)
            self._watches[id(request)] = request
            try:
                await response.prepare(request)
                async for piece in upstream.content.iter_any():
                    await self._flowing.wait()
                    await response.write(piece)
            finally:
                del self._watches[id(request)]
            return response


def is_watch(request: web.Request) -> bool:
    return request.query.get("watch") in ("true", "1")


def is_write(request: web.Request) -> bool:
    return request.method in ("POST", "PATCH", "PUT", "DELETE")


def described(request: web.Request) -> str:
    """Verb and resource: `PATCH modeldeployments/status`."""
    parts = request.path.strip("/").split("/")
    if "namespaces" in parts[:-1]:
        parts = parts[parts.index("namespaces") + 2 :]
        resource = "/".join([parts[0], *parts[2:]]) if parts else "namespaces"
    else:
        resource = parts[-1]
    return f"{'WATCH' if is_watch(request) else request.method} {resource}"


def _hang_up(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
