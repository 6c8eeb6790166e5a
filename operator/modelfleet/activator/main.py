"""The activator's process: starts the parts, ends when any of them ends or after SIGTERM. I/O.

| exit status | meaning |
| --- | --- |
| 0 | SIGTERM or SIGINT; whatever was held was answered, or the grace ended |
| 1 | a part ended that must not end; restart the process |
| 2 | wrong flags, or a token file that cannot be read |
| 3 | there are no usable credentials for the API server |
| 4 | the metrics port cannot be opened |

The API server away at the start: it waits, not ready. Away later: it goes on with what it knows.
"""

import asyncio
import logging
import resource
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from modelfleet.activator import passing
from modelfleet.activator.fleet import Fleet
from modelfleet.activator.front import Front, Terms
from modelfleet.activator.line import Surroundings
from modelfleet.activator.meter import Meter
from modelfleet.activator.options import Options, parse
from modelfleet.activator.ports import Ports
from modelfleet.activator.telling import Demands, Membership, Seen
from modelfleet.activator.watched import Key, Watched
from modelfleet.api import names
from modelfleet.controller import credentials, telemetry
from modelfleet.controller.cluster import KubernetesCluster, Managers
from modelfleet.controller.flags import OptionsError
from modelfleet.controller.process import collect_seldom, stop_signal, utc_now
from modelfleet.controller.resources import DEPLOYMENTS, SLICES
from modelfleet.controller.streams import KubernetesStreams
from modelfleet.core.activation import holding
from modelfleet.core.activation.known import Known, known
from modelfleet.core.activation.slices import outline, ready_addresses
from modelfleet.core.snapshot import Raw

_log = logging.getLogger("modelfleet.activator.main")

_LOOK_S = 0.05
_WRITE_S = 5.0  # a write that was swallowed is made anew: a model wakes by it
_SHARE_PERCENT = 60  # of the open files, for requests that are held; the others are for those that pass, which take two


class UnusableError(Exception):
    """The process cannot begin; one sentence and an exit status."""

    def __init__(self, sentence: str, status: int) -> None:
        super().__init__(sentence)
        self.status = status


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the activator and exits with its status."""
    try:
        options = parse(sys.argv[1:] if argv is None else argv)
        token = _token(options.token_file)
    except OptionsError as error:
        print(f"modelfleet-activator: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    telemetry.configure_logs(options.log_level)
    options = _with_files(options)
    collect_seldom()
    try:
        status = asyncio.run(Activator(options, token).run())
    except UnusableError as error:
        _log.error("%s", error)
        status = error.status
    raise SystemExit(status)


class Activator:
    """The process's parts."""

    def __init__(self, options: Options, token: str) -> None:
        self._options, self._terms = options, Terms(token, options.comment_s)
        self._meter = Meter()
        self._around = Surroundings(options.pod, options.limits, utc_now)
        self._fleet = Fleet(self._around, self._meter, self._ports_changed)
        self._ports_due = asyncio.Event()
        self._deployments: list[Watched[Known | None]] = []
        self._slices: list[Watched[Raw]] = []
        self._peers: Watched[Raw] | None = None
        self._membership: Membership | None = None
        self._opened = self._leaving = False

    async def run(self) -> int:
        """Serves until SIGTERM, and then until nobody waits; the exit status. Raises UnusableError."""
        async with AsyncExitStack() as stack:
            return await self._run(stack)

    async def _run(self, stack: AsyncExitStack) -> int:
        options, stop = self._options, stop_signal()
        cluster = await stack.enter_async_context(await self._cluster())
        await self._watches(stack)
        demands = Demands(cluster, options.pod, utc_now, self._meter)
        self._around.changed = demands.changed
        if options.own is not None:
            self._membership = Membership(cluster, options.own, self._meter)
        pass_on = passing.Passing(await stack.enter_async_context(passing.session()))
        front = Front(self._fleet.line_at, pass_on, self._terms, self._around, self._meter)
        ports = Ports(front, options.host)
        self._expose(ports)
        await self._serve_metrics(stack)
        works = [each.run() for each in self._followed()]
        works += [demands.run(lambda: self._fleet.lines), ports.run(), self._keep_ports(ports)]
        if self._membership is not None:
            works.append(self._membership.run(lambda: self._seen(ports)))
        tasks = [asyncio.create_task(work) for work in works]
        _log.info("started", extra={"namespaces": options.namespaces or "all", "activator": options.pod})
        ended = await _first_end(stop, tasks)
        if ended is None:
            await self._finish(front)
        await ports.close()
        if ended is None:
            await demands.clear(self._fleet.lines)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if ended is not None:
            _log.error("a part of the activator ended: %r; the process ends, to be started again", ended)
            return 1
        _log.info("stopped")
        return 0

    async def _finish(self, front: Front) -> None:
        """Leaves the slices and goes on until nobody waits any more, or the grace ends."""
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        self._leaving = front.closing = True
        if self._membership is not None:
            self._membership.leave()
        _log.info("leaving", extra={"held": self._fleet.held, "in_flight": front.active})
        while loop.time() < begun_s + self._options.grace_s:
            if loop.time() >= begun_s + self._options.propagation_s and not front.active:
                return
            await asyncio.sleep(_LOOK_S)
        _log.warning("the grace ended", extra={"held": self._fleet.held, "in_flight": front.active})
        for line in self._fleet.lines.values():
            line.close(holding.stopping(line.model))
        await asyncio.sleep(1.0)

    async def _cluster(self) -> KubernetesCluster:
        managers = Managers(names.ACTIVATOR, f"{names.ACTIVATOR}-{self._options.pod}")
        configuration = await _credentials(self._options)
        return KubernetesCluster(configuration, write_left_s=lambda: _WRITE_S, managers=managers)

    async def _watches(self, stack: AsyncExitStack) -> None:
        options = self._options

        async def streams(namespace: str | None, labels: str = "") -> KubernetesStreams:
            made = KubernetesStreams(await _credentials(options), namespace, labels)
            return await stack.enter_async_context(made)

        for namespace in options.namespaces or (None,):
            self._deployments.append(Watched(await streams(namespace), DEPLOYMENTS, known, self._learn))
            ours = await streams(namespace, names.DEPLOYMENT_LABEL)
            self._slices.append(Watched(ours, SLICES, outline, self._look))
        if options.service and options.own is not None:
            of_service = await streams(options.own.namespace, f"{names.SERVICE_NAME_LABEL}={options.service}")
            self._peers = Watched(of_service, SLICES, outline, lambda *_: self._peers_changed())

    def _followed(self) -> list[Watched[Any]]:
        return [*self._deployments, *self._slices, *([self._peers] if self._peers is not None else [])]

    # What changes

    def _learn(self, keys: frozenset[Key], models: Mapping[Key, Known | None]) -> None:
        self._fleet.learn(keys, models)
        for key in keys:
            self._around.changed(key)
        self._look_out(keys)

    def _look(self, keys: frozenset[Key], slices: Mapping[Key, Raw]) -> None:
        self._look_out(self._fleet.look_at_slices(keys, slices))

    def _peers_changed(self) -> None:
        self._around.activators = max(1, len(self._alive() or ()))
        self._ports_changed()

    def _ports_changed(self) -> None:
        self._look_out(None)
        self._ports_due.set()

    def _look_out(self, keys: Iterable[Key] | None) -> None:
        """Slices of these models may have to change; None: of all."""
        if not self._opened:
            self._ports_due.set()  # it is ready as soon as all was read
        if self._membership is not None:
            self._membership.changed(keys)

    async def _keep_ports(self, ports: Ports) -> None:
        """Opens and closes ports when others are wanted; then slices may have to change."""
        while True:
            await self._ports_due.wait()
            self._ports_due.clear()
            await ports.want(self._fleet.ports)
            self._opened = self._opened or self._whole()
            if self._membership is not None:
                self._membership.changed()

    def _whole(self) -> bool:
        return all(each.whole for each in self._deployments) and all(each.whole for each in self._slices)

    def _alive(self) -> frozenset[str] | None:
        if self._peers is None or not self._peers.whole:
            return None
        return ready_addresses(self._peers.objects.values())

    def _seen(self, ports: Ports) -> Seen:
        return Seen(self._fleet, ports.listening, self._alive())

    # What it tells

    def _expose(self, ports: Ports) -> None:
        lines, totals = self._fleet.lines, self._around.totals
        self._meter.expose(
            lambda: [(key, line.held, len(line.workers)) for key, line in lines.items()], lambda: totals.total_bytes
        )
        self._meter.gauge("connections", "Connections of clients", lambda: ports.connections)
        self._meter.gauge("ports", "Ports that are open, one a model", lambda: len(ports.listening))
        self._meter.gauge("port_faults", "Ports that cannot be opened", lambda: len(ports.faults))

    async def _serve_metrics(self, stack: AsyncExitStack) -> None:
        options = self._options
        health = telemetry.Health(ready=[self._not_ready])
        try:
            runner, port = await telemetry.serve(self._meter, health, options.metrics_host, options.metrics_port)
        except OSError as error:
            raise UnusableError(f"the metrics port {options.metrics_port} cannot be opened: {error}", 4) from error
        stack.push_async_callback(runner.cleanup)
        _log.info("metrics", extra={"port": port})

    def _not_ready(self) -> str | None:
        if self._leaving:
            return "it is stopping"
        return None if self._opened else "the ModelDeployments and their EndpointSlices are not all read yet"


async def _credentials(options: Options) -> Any:
    try:
        return await credentials.load(options.kubeconfig)
    except credentials.CredentialsError as error:
        raise UnusableError(str(error), 3) from error


async def _first_end(stop: asyncio.Event, tasks: Sequence["asyncio.Task[Any]"]) -> BaseException | None:
    """None when told to stop, else what a part ended by."""
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({stopping, *tasks}, return_when=asyncio.FIRST_COMPLETED)
    if stopping.done():
        return None
    stopping.cancel()
    ended = next(task for task in tasks if task.done())
    return ended.exception() or RuntimeError("it returned")


def _token(path: str | None) -> str:
    """The first line of the token file; empty without one. Raises OptionsError."""
    if path is None:
        return ""
    try:
        lines = Path(path).read_text().split()
    except (OSError, ValueError) as error:
        raise OptionsError(f"--caller-token-file {path} cannot be read: {error}") from error
    if not lines:
        raise OptionsError(f"--caller-token-file {path} is empty: it must hold a token")
    return lines[0]


def _with_files(options: Options) -> Options:
    """As many open files as the process may have, and no more requests held than they suffice for."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    fit = max(1, most * _SHARE_PERCENT // 100)
    if most == resource.RLIM_INFINITY or options.limits.requests <= fit:
        return options
    _log.warning("at most %d requests are held, because the process may open %d files", fit, most)
    return replace(options, limits=replace(options.limits, requests=fit))


if __name__ == "__main__":
    main()
