"""The operator's process: starts the parts, ends when any of them ends or on SIGTERM. I/O.

| exit status | meaning |
| --- | --- |
| 0 | SIGTERM or SIGINT; running reconciles were finished |
| 1 | a part ended that must not end: the watch, a worker; restart the process |
| 2 | wrong flags |
| 3 | the API server cannot be reached or refuses us, or its CRDs are missing |
| 4 | the metrics port cannot be opened |
| 5 | the Lease was lost: another process leads, or will; restart this one, to stand by |
"""

import asyncio
import contextlib
import logging
import random
import secrets
import socket
import sys
import time
from collections.abc import Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from modelfleet.api import names
from modelfleet.controller import credentials, handlers, telemetry
from modelfleet.controller.activators import Activators
from modelfleet.controller.autoscaler import Autoscaler
from modelfleet.controller.cluster import ApiError, Cluster, KubernetesCluster
from modelfleet.controller.events import Recorder
from modelfleet.controller.gather import Gatherer
from modelfleet.controller.lease import Alone, Candidate, Elected, Leadership
from modelfleet.controller.metrics.book import Book
from modelfleet.controller.metrics.sampling import Sampling
from modelfleet.controller.options import Options, OptionsError, parse
from modelfleet.controller.placer import Placer
from modelfleet.controller.process import stop_signal, utc_now
from modelfleet.controller.queue import Backoff, WorkQueue
from modelfleet.controller.rate import Rate
from modelfleet.controller.resync import Resync
from modelfleet.controller.rivals import Rivals
from modelfleet.controller.shell import Parts, Shell
from modelfleet.controller.streams import KubernetesStreams, Streams
from modelfleet.controller.triggers import Key
from modelfleet.controller.watch import QueueTriggers, Watch
from modelfleet.core.reconcile import plan

_log = logging.getLogger("modelfleet.controller.main")  # __name__ is __main__ under `python -m`

GRACE_S = 20.0
"""For running reconciles after SIGTERM: below the 30 s that Kubernetes gives a pod."""

SHORTEST_S = 5.0
"""A process lives so long at least, also if a part of it fails at once."""

STUCK_S = 120.0
"""A thread that is silent for so long, or keys that are due while no reconcile ends for so long, mean that this process
no longer works. Above the deadline of a reconcile: one that the API server keeps waiting ends by that."""


class UnusableError(Exception):
    """The process cannot begin; one sentence and an exit status."""

    def __init__(self, sentence: str, status: int) -> None:
        super().__init__(sentence)
        self.status = status


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of `modelfleet-operator`."""
    try:
        options = parse(sys.argv[1:] if arguments is None else arguments)
    except OptionsError as error:
        print(f"modelfleet-operator: {error}", file=sys.stderr)
        sys.exit(2)
    telemetry.configure_logs(options.log_level)
    try:
        status = asyncio.run(Operator(options).run())
    except UnusableError as error:
        _log.error("%s", error)
        status = error.status
    sys.exit(status)


@dataclass(frozen=True)
class _End:
    """Why the process ends without being told to, and with which exit status."""

    sentence: str
    status: int


class Operator:
    """The parts of one process and how they depend on each other."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._metrics, self._health, self._lag = telemetry.Metrics(), telemetry.Health(), telemetry.LoopLag()
        self._resync: Resync | None = None
        self._began_s = 0.0
        self._noticed_at_s: float | None = None

    async def run(self) -> int:
        """Until SIGTERM or SIGINT (0), or until a part ends (1) or the Lease is lost (5). Raises UnusableError."""
        self._began_s = asyncio.get_running_loop().time()
        stop = stop_signal()
        runner = await self._serve()
        try:
            configuration = await credentials.load(self._options.kubeconfig)
            async with AsyncExitStack() as stack:
                # A connection and slots of its own: a renewal never waits behind reconciles.
                voting = await stack.enter_async_context(KubernetesCluster(configuration, self._metrics.called))
                leadership = self._leadership(voting)
                rate = Rate(self._options.api_qps, self._options.api_burst)
                cluster = await stack.enter_async_context(
                    KubernetesCluster(configuration, self._metrics.called, leadership.write_left_s, rate)
                )
                if not await self._await_crds(cluster, stop) or not await _before(stop, leadership.acquire()):
                    await leadership.release()
                    _log.info("stopped")
                    return 0
                streams = await stack.enter_async_context(KubernetesStreams(configuration))
                status = await self._operate(cluster, streams, leadership, stop)
                return status if status != 1 else await self._paced(stop)
        except credentials.CredentialsError as error:
            raise UnusableError(str(error), 3) from error
        finally:
            await runner.cleanup()

    async def _paced(self, stop: asyncio.Event) -> int:
        """1, not before SHORTEST_S after the start: a start reads everything, and whoever restarts us may not wait."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(self._began_s + SHORTEST_S):
                await stop.wait()
        return 1

    def _leadership(self, cluster: Cluster) -> Leadership:
        lease = self._options.lease
        leadership: Leadership = Alone()
        if lease is not None:
            # The suffix: a container that was restarted in its pod is another process.
            identity = f"{lease.holder or socket.gethostname()}_{secrets.token_hex(4)}"
            rivals = Rivals(cluster, (lease.namespace, lease.name), self._options.namespaces)
            candidate = Candidate(lease.namespace, lease.name, identity)
            leadership = Elected(cluster, candidate, utc_now, rivals=rivals)
        self._metrics.gauge("leader", "1 in the process that leads, 0 in a standby", lambda: float(leadership.leads))
        self._health.ready.append(lambda: self._unready(leadership))
        return leadership

    def _unready(self, leadership: Leadership) -> str | None:
        """Readiness is not leadership: a standby that could take over is ready."""
        if leadership.leads:
            listed = self._resync is not None and self._resync.has_listed
            return None if listed else "the first list of ModelDeployments is not done"
        return leadership.fault()

    async def _serve(self) -> web.AppRunner:
        host, port = self._options.metrics_host, self._options.metrics_port
        try:
            runner, port = await telemetry.serve(self._metrics, self._health, host, port)
        except OSError as error:
            raise UnusableError(
                f"the metrics port {port} cannot be opened ({error.strerror}); give --metrics-port", 4
            ) from error
        _log.info("serving metrics and probes", extra={"port": port})
        return runner

    async def _await_crds(self, cluster: Cluster, stop: asyncio.Event) -> bool:
        """True when all CRDs are served; False when told to stop. Raises UnusableError after the start timeout."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._options.start_timeout_s
        told = ""
        while True:
            fault = await _crds_fault(cluster)
            if fault is None:
                return True
            if loop.time() >= until:
                raise UnusableError(fault, 3)
            if fault != told:
                _log.warning("waiting: %s", fault)
                told = fault
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await stop.wait()
            if stop.is_set():
                return False

    async def _operate(self, cluster: Cluster, streams: Streams, leadership: Leadership, stop: asyncio.Event) -> int:
        queue: WorkQueue[Key] = WorkQueue(Backoff(random.random))
        recorder = Recorder(cluster, socket.gethostname(), utc_now, self._metrics.events_dropped.inc)
        book = Book(asyncio.get_running_loop().time, self._options.sampling.interval_s)
        activators = Activators(cluster, self._options.namespaces)
        triggers = QueueTriggers(queue, asyncio.get_running_loop())
        placer = Placer(streams, triggers)
        gatherer = Gatherer(cluster, self._options.settings, utc_now, book, activators)
        sampling = Sampling(book, self._options.sampling, triggers, self._metrics)
        numbers = Autoscaler(book.samples, triggers, utc_now)
        shell = Shell(Parts(cluster, gatherer, recorder, plan, utc_now, self._metrics.reconciled, placer, numbers))
        watch = Watch(handlers.registry(triggers, self._noticed), self._options.kubeconfig, self._options.namespaces)
        self._resync = Resync(cluster, queue, self._options.resync_s, self._options.namespaces)
        self._expose(queue, watch)
        self._expose_placer(placer)
        workers = [asyncio.create_task(queue.work(shell.reconcile)) for _ in range(self._options.workers)]
        beside = [recorder.run(), placer.inventory.run(), self._resync.run(), self._lag.run()]
        beside += [sampling.run(), numbers.run(), activators.run(triggers)]
        others = [asyncio.create_task(work) for work in beside]
        watch.start()
        _log.info("started", extra={"namespaces": self._options.namespaces or "all", "workers": len(workers)})
        keeping = asyncio.create_task(leadership.keep())
        end = await _first_end(stop, watch, keeping, [*workers, *others])
        queue.close()
        lost = keeping.done()  # then nothing may be finished: another may have begun
        _, unfinished = await asyncio.wait(workers, timeout=0 if lost else GRACE_S)
        for task in (*unfinished, *others):
            task.cancel()
        await asyncio.gather(*workers, *others, return_exceptions=True)
        if not lost:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(2.0):
                    await recorder.flush()
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
            await leadership.release()
        await watch.stop()
        if end is None:
            _log.info("stopped", extra={"unfinished": len(unfinished)})
            return 0
        _log.error("%s; the process ends, to be started again", end.sentence)
        return end.status

    def _noticed(self) -> None:
        self._noticed_at_s = time.monotonic()

    def _expose(self, queue: WorkQueue[Key], watch: Watch) -> None:
        now = asyncio.get_running_loop().time
        gauge = self._metrics.gauge
        gauge("queue_depth", "Keys that are due and wait for a worker", lambda: queue.depth)
        gauge(
            "queue_oldest_key_age_seconds", "For how long the most neglected key is due", lambda: queue.oldest_key_age_s
        )
        gauge("known_deployments", "ModelDeployments that are known", lambda: len(queue.keys))
        gauge("event_loop_lag_seconds", "How late the event loop ran what was due", lambda: self._lag.lag_s)
        gauge(
            "last_event_age_seconds",
            "Since the watch last reported anything; NaN: nothing yet",
            lambda: float("nan") if self._noticed_at_s is None else time.monotonic() - self._noticed_at_s,
        )
        self._health.live += [
            lambda: "the watch's thread is silent" if now() - watch.last_beat_s > STUCK_S else None,
            lambda: queue.standstill(STUCK_S),
        ]

    def _expose_placer(self, placer: Placer) -> None:
        books, gauge = placer.inventory, self._metrics.gauge
        gauge("inventory_whole", "1 once all nodes and pods were read", lambda: float(books.whole))
        gauge(
            "inventory_age_seconds",
            "Since the API server last told about nodes or pods; NaN: not whole yet",
            lambda: books.age_s if books.whole else float("nan"),
        )
        gauge("inventory_nodes", "Nodes that the inventory holds", lambda: len(books.ledger.nodes))
        gauge("inventory_pods", "Pods that hold room of a node", lambda: len(books.ledger.pods))
        gauge("waiting_for_room", "ModelDeployments with a replica that found no room", lambda: placer.waiting)


async def _crds_fault(cluster: Cluster) -> str | None:
    """Why the operator cannot begin, if so."""
    try:
        served = await cluster.served(names.API_VERSION)
    except ApiError as error:
        return f"the API server cannot be used: {error}"
    missing = [
        f"{plural}.{names.GROUP}"
        for plural in (names.DEPLOYMENT_PLURAL, names.CLASS_PLURAL, names.PROFILE_PLURAL)
        if plural not in served
    ]
    if missing:
        return f"the cluster lacks the CRDs {', '.join(missing)}; install them with `modelfleet crds apply`"
    return None


async def _before(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> bool:
    """Does the work; False when told to stop first."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if not working.done():
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        return False
    working.result()
    return True


async def _first_end(
    stop: asyncio.Event, watch: Watch, keeping: "asyncio.Task[str]", tasks: Sequence["asyncio.Task[None]"]
) -> _End | None:
    """None when told to stop, else what ended."""
    stopping = asyncio.create_task(stop.wait())
    ends: set[asyncio.Future[Any]] = {stopping, watch.ended, keeping, *tasks}
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    if keeping.done() and not keeping.cancelled() and keeping.exception() is None:
        stopping.cancel()
        return _End(keeping.result(), 5)
    if stopping.done():
        return None
    stopping.cancel()
    if watch.ended.done():
        return _End(f"the watch ended: {watch.ended.result()}", 1)
    error = next((task.exception() for task in (*tasks, keeping) if task.done() and not task.cancelled()), None)
    return _End(f"a part of the operator ended: {error!r}", 1)


if __name__ == "__main__":
    main()
