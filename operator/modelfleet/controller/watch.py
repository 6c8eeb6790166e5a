"""kopf in a thread and an event loop of its own: it watches and hands keys over. I/O; decides nothing.

Its exit cancels nothing of ours there (kopf cancels every task of its loop), and a long list does not stall reconciles.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

import aiohttp
import kopf
from aiohttp import ClientHandlerType, ClientRequest, ClientResponse

from modelfleet.api import names
from modelfleet.controller import credentials
from modelfleet.controller.queue import WorkQueue
from modelfleet.controller.resources import CHILDREN
from modelfleet.controller.triggers import Key

_log = logging.getLogger(__name__)

_HEARTBEAT_S = 5.0
_HEADERS_S = 15.0  # until an answer begins: a list or watch that was swallowed is asked for anew
# As many seconds in all as kopf's own, after which the process ends; but none so long that what happened meanwhile is
# seen only long after the API server has come back.
_BACKOFFS_S = (1, 1, 2, 3, 5, 8, 8, 8, 8, 8)
_END_S = 8.0  # kopf gives its tasks 5 s to end


class QueueTriggers:
    """Triggers that hand over to the queue's loop from any thread."""

    def __init__(self, queue: WorkQueue[Key], loop: asyncio.AbstractEventLoop) -> None:
        self._queue, self._loop = queue, loop

    def add(self, key: Key, *, behind: bool = False) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the process is ending
            self._loop.call_soon_threadsafe(partial(self._queue.add, key, behind=behind))


class Pace:
    """Spaces out what begins again and again.

    kopf begins a watch that ended anew at once, without end: 150 requests/s where something breaks each of them. Here a
    start waits FIRST_S from the one before, and twice as long with each that follows its predecessor within FRESH_S, up
    to MOST_S.
    """

    FIRST_S, MOST_S, FRESH_S = 0.5, 8.0, 20.0

    def __init__(self) -> None:
        self._starts: dict[str, tuple[float, int]] = {}

    async def wait(self, what: str) -> None:
        """Until `what` may begin."""
        now = asyncio.get_running_loop().time()
        last_s, streak = self._starts.get(what, (-self.FRESH_S, 0))
        streak = streak + 1 if now - last_s < self.FRESH_S else 0
        gap_s = min(self.FIRST_S * 2.0 ** min(streak - 1, 8), self.MOST_S) if streak else 0.0
        at_s = max(now, last_s + gap_s)
        self._starts[what] = (at_s, streak)
        await asyncio.sleep(at_s - now)


class Watch:
    """kopf's thread. `ended` resolves when kopf ends for any reason; the process must then end too."""

    def __init__(self, registry: kopf.OperatorRegistry, kubeconfig: str | None, namespaces: Sequence[str]) -> None:
        self._registry, self._namespaces = registry, namespaces
        self._main = asyncio.get_running_loop()
        self.ended: asyncio.Future[str] = self._main.create_future()
        self.last_beat_s = self._main.time()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="kopf", daemon=True)
        pace = Pace()

        @kopf.on.login(registry=registry)
        async def login(**_: Any) -> kopf.AiohttpSession:
            return await _session(kubeconfig, pace)

        @kopf.on.cleanup(registry=registry)
        async def cleanup(**_: Any) -> None:
            # kopf can hang after this: a watcher that logs in again when the session closes is never cancelled.
            with contextlib.suppress(RuntimeError):
                self._main.call_soon_threadsafe(self._expect_end)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    async def stop(self) -> None:
        """Cancel kopf and wait for its thread, shortly: nothing in it needs to be finished."""
        if self._loop is not None and self._task is not None:
            with contextlib.suppress(RuntimeError):  # it ended by itself
                self._loop.call_soon_threadsafe(self._task.cancel)
        await asyncio.to_thread(self._thread.join, 5.0)

    def _run(self) -> None:
        why = "ended without an error"
        try:
            asyncio.run(self._watch())
        except asyncio.CancelledError:
            why = "was cancelled"
        except BaseException as error:  # whatever it is, the process ends by it, and says so
            why = f"{type(error).__name__}: {error}"
        finally:
            with contextlib.suppress(RuntimeError):
                self._main.call_soon_threadsafe(self._resolve, why)

    def _expect_end(self) -> None:
        self._main.call_later(_END_S, self._resolve, "its own log lines say why, and then it hung")

    def _resolve(self, why: str) -> None:
        if not self.ended.done():
            self.ended.set_result(why)

    async def _watch(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        self._loop.set_exception_handler(_tell)
        beat = asyncio.create_task(self._beat())
        try:
            await kopf.operator(
                registry=self._registry,
                settings=settings(),
                standalone=True,
                clusterwide=not self._namespaces,
                namespaces=tuple(self._namespaces),
            )
        finally:
            beat.cancel()

    async def _beat(self) -> None:
        while True:
            self.last_beat_s = self._main.time()
            await asyncio.sleep(_HEARTBEAT_S)


class _NoProgress(kopf.ProgressStorage):
    """Keeps no progress, because event handlers have none; so nothing is ever written to a user's object."""

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        return None

    def purge(self, **_: Any) -> None:
        return None

    def touch(self, **_: Any) -> None:
        return None

    def clear(self, *, essence: Any) -> Any:
        return essence


class _NoDiffBase(kopf.DiffBaseStorage):
    """Keeps no last-seen body, and spares the copy that kopf would make of each (half of its CPU an event)."""

    def build(self, **_: Any) -> Any:
        return {}

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        return None


def settings() -> kopf.OperatorSettings:
    """kopf's settings; the numbers are measured in kopf-k8s.md, section 1."""
    result = kopf.OperatorSettings()
    result.persistence.progress_storage = _NoProgress()
    result.persistence.diffbase_storage = _NoDiffBase()
    result.posting.enabled = False
    result.scanning.disabled = True
    result.queueing.idle_timeout = 0.5
    result.watching.chunk_size = 500
    result.watching.reconnect_backoff = 1.0
    result.networking.enforce_retry_after = True
    result.networking.connect_timeout = 10
    result.networking.error_backoffs = _BACKOFFS_S
    result.process.ultimate_exiting_timeout = None
    for child in CHILDREN:
        result.watching.label_selectors[child.plural] = names.DEPLOYMENT_LABEL
    return result


def _tell(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What nobody in kopf waited for, in one line: mostly what its end leaves behind."""
    _log.warning("in kopf: %s", " ".join(str(context.get("exception") or context["message"]).split()))


async def _session(kubeconfig: str | None, pace: Pace) -> kopf.AiohttpSession:
    """A session of its own for each login: kopf closes it when the server says 401."""
    try:
        configuration = await credentials.load(kubeconfig)
    except credentials.CredentialsError as error:
        raise kopf.PermanentError(str(error)) from error

    async def authorize(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        if (value := await credentials.authorization(configuration)) is not None:
            request.headers["Authorization"] = value
        if configuration.tls_server_name:
            request.server_hostname = configuration.tls_server_name
        if "watch" in request.url.query:
            await pace.wait(request.url.path)
        async with asyncio.timeout(_HEADERS_S):
            return await handler(request)

    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=credentials.tls(configuration)),
        middlewares=(authorize,),
        proxy=configuration.proxy,
        headers={"User-Agent": "modelfleet"},
    )
    return kopf.AiohttpSession(server=configuration.host, aiohttp_session=session)
