"""The worker's part that looks after memory: checks before a start, watches, explains a death. Reads devices, files."""

import asyncio
import logging
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from math import inf
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily, Metric

from modelfleet_worker import processes
from modelfleet_worker.cgroup import Held, Host
from modelfleet_worker.devices import Device, Devices, DevicesError
from modelfleet_worker.engine_settings import engine_settings
from modelfleet_worker.failure import Failure, Reason
from modelfleet_worker.memory_box import BlackBox, counted, spare_bytes
from modelfleet_worker.memory_cause import Facts, account
from modelfleet_worker.memory_check import check_devices, check_host, unavailable
from modelfleet_worker.memory_driver import Driver
from modelfleet_worker.memory_log import Listener
from modelfleet_worker.memory_samples import HOST_TOLERANCE_BYTES, Sample
from modelfleet_worker.nvml import NvmlDevices
from modelfleet_worker.parts import Equipment, Part
from modelfleet_worker.plan import Plan
from modelfleet_worker.recent_inputs import forget_inputs, recent_inputs
from modelfleet_worker.state import Progress, State
from modelfleet_worker.waiting import first, in_thread

PERIOD_S = 2.0
KEPT_S = 300.0
_LOOKS = 8  # in each period at most, at whether memory runs short
_FILL_BYTES_PER_S = 16 << 30  # what some threads touch in a second of a host's memory; none runs short unseen for less
_KILLED_WHOLE = Failure(
    reason=Reason.ENGINE_DIED,
    message="The kernel killed the container for lack of memory.",
    remedy="Raise the class's hostPerAccelerator.memory.",
    exit_code=-signal.SIGKILL,
    phase=State.SERVING,
)
_OPEN_S = 120.0  # a driver that nobody uses yet first wakes its devices, one by one
_RELEASE_S = 2.0  # a driver takes a moment to give back what a killed process held
_ANSWER_S = 3.0  # a driver that hangs may be why the engine died
_AFTER_S = 5.0  # longer than this an account does not wait to be exact; the kubelet may kill a worker that waits
_INITIAL_PID_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of the kernel: here, process ids are the node's
_log = logging.getLogger(__name__)


class Memory(Part):
    """Samples every PERIOD_S, in a thread, and keeps the last KEPT_S."""

    def __init__(
        self,
        plan: Plan,
        progress: Progress,
        termination_log: Path,
        inputs: Path,
        devices: Callable[[], Devices] = NvmlDevices,
    ) -> None:
        """`inputs` is the folder in which the engine's API servers note their prompts; it need not be there. `devices`
        opens the driver's library; it raises DevicesError."""
        self._stated, self._progress, self._inputs = plan.memory, progress, inputs
        self._open = devices
        self._host = Host()
        self._box = BlackBox(termination_log)
        self._settings = engine_settings(plan.args)
        self._driver: Driver | None = None
        self._listener = Listener()
        self._serves = False
        self._before: Sample | None = None
        self._ring: deque[Sample] = deque(maxlen=int(KEPT_S / PERIOD_S))

    async def check(self) -> Failure | None:
        try:
            async with asyncio.timeout(_OPEN_S):
                return await in_thread(self._check)
        except TimeoutError:
            return unavailable(f"their driver has not answered for {_OPEN_S:g} s")

    def equip(self, code: Path) -> Equipment:
        """What an earlier engine of this worker said and took explains nothing of the next."""
        forget_inputs(self._inputs)
        self._listener, self._serves = Listener(), False
        self._ring.clear()
        return Equipment()

    def heard(self, line: str) -> None:
        if self._progress.state in (State.SERVING, State.DRAINING):
            self._forget_start()
        self._listener.add(line)

    async def watch(self) -> Failure:
        try:
            await first(None, self._keep_sampling(), self._keep_foreseeing())
            raise AssertionError("unreachable")
        finally:
            self._box.clear()

    async def explain(self, failure: Failure) -> Failure:
        if failure.reason is Reason.ENGINE_HUNG:
            return failure
        if failure.phase != State.STARTING:
            self._forget_start()  # it may have said nothing since
        after = None
        try:
            async with asyncio.timeout(_AFTER_S):
                after = await self._after()
        except TimeoutError:
            _log.warning("what is left of the memory was not told within %g s", _AFTER_S)
        return account(failure, self._facts(after))

    def metrics(self) -> Iterable[Metric]:
        if not self._ring:
            return
        last = self._ring[-1]
        used = GaugeMetricFamily(
            "modelfleet_worker_accelerator_used_bytes", "Memory in use on an accelerator.", labels=["device"]
        )
        for device in last.devices:
            if device.usable_bytes:  # one that is lost tells nothing
                used.add_metric([str(device.index)], device.used_bytes)
        yield used
        text = "Host memory that this worker's processes hold for themselves."
        yield GaugeMetricFamily("modelfleet_worker_host_own_bytes", text, last.own_bytes)
        if last.host is not None:
            text = "Processes of the container that were killed for lack of memory."
            yield GaugeMetricFamily("modelfleet_worker_oom_kills", text, last.host.oom_kills)

    async def _keep_sampling(self) -> None:
        while True:
            self._ring.append(await self._sample(PERIOD_S))
            await asyncio.sleep(PERIOD_S)

    async def _keep_foreseeing(self) -> None:
        while True:  # noqa: ASYNC110 (memory that fills has no event)
            await asyncio.sleep(min(PERIOD_S, max(self._foresee(), PERIOD_S / _LOOKS)))

    def _forget_start(self) -> None:
        if not self._serves:
            self._serves = True
            self._listener.forget_start()

    def _facts(self, after: Sample | None) -> Facts:
        return Facts(
            settings=self._settings,
            said=self._listener.said(),
            before=self._before,
            ring=tuple(self._ring),
            after=after,
            inputs=recent_inputs(self._inputs),
            xids=self._driver.xids if self._driver is not None else (),
        )

    def _foresee(self) -> float:
        """Writes down what a kill of the whole container would have to be explained with, while memory is short: then
        nobody is left to do it. Two small files are read for it, and the devices are as they were last seen. Gives the
        seconds for which it cannot become short."""
        host = self._host.memory()
        spare = inf if host is None else spare_bytes(host, self._host.node())
        if spare > 0:
            self._box.clear()
        elif (last := self._ring[-1] if self._ring else self._before) is not None:
            self._box.keep(lambda: account(_KILLED_WHOLE, self._facts(counted(last))))
        return spare / _FILL_BYTES_PER_S

    def _check(self) -> Failure | None:
        devices: tuple[Device, ...] = ()
        try:
            opened = self._open()
            devices = tuple(opened.read())
            opened.xids()  # those of before are nobody's
            self._driver = Driver(opened)
        except DevicesError as error:
            if not error.absent or self._stated.device == "Cuda":
                return unavailable(str(error))
        self._before = self._sample_with(devices)
        for device in devices:
            if device.ecc_uncorrected:
                _log.warning("%s has %d uncorrectable memory errors", device.name, device.ecc_uncorrected)
        if devices:
            return check_devices(devices, self._settings, self._stated.accelerator_bytes)
        return check_host(self._before, self._settings)

    async def _look(self, timeout_s: float) -> tuple[Device, ...]:
        return await self._driver.look(timeout_s) if self._driver is not None else ()

    async def _sample(self, timeout_s: float) -> Sample:
        """Without the devices where the driver gives no answer in time."""
        return await in_thread(self._sample_with, await self._look(timeout_s))

    def _sample_with(self, devices: tuple[Device, ...]) -> Sample:
        """A sample with these devices."""
        # What is ours first: a process that ends in between is then counted as ours, and never as somebody else's.
        ours = [os.getpid(), *processes.descendants(os.getpid())]
        own_bytes = sum(held.anonymous_bytes for held in self._host.held(ours))
        host = self._host.memory()
        others = self._largest(set(self._host.members()) - set(ours)) if host and host.limit_bytes else ()
        return Sample(
            at_s=time.monotonic(),
            devices=devices,
            host=host,
            node=self._host.node(),
            own_bytes=own_bytes,
            others=others,
        )

    async def _after(self) -> Sample:
        """A sample when our processes are gone, with what the driver has not given back yet waited for."""
        loop = asyncio.get_running_loop()
        until_s, devices = loop.time() + _ANSWER_S, await self._look(_ANSWER_S)
        while any(device.used_bytes > device.noise_bytes for device in devices):
            if until_s - loop.time() < _ANSWER_S - _RELEASE_S:
                break
            await asyncio.sleep(0.2)
            devices = await self._look(until_s - loop.time()) or devices
        return await in_thread(self._left, devices)

    def _left(self, devices: tuple[Device, ...]) -> Sample:
        sample = self._sample_with(devices)
        if not devices and self._driver is None and in_initial_namespace():
            ours = {os.getpid(), *processes.descendants(os.getpid())}
            return replace(sample, on_node=self._largest(_all_pids() - ours))
        return sample

    def _largest(self, pids: set[int]) -> tuple[Held, ...]:
        held = (one for one in self._host.held(pids) if one.anonymous_bytes >= HOST_TOLERANCE_BYTES // 2)
        return tuple(sorted(held, key=lambda one: -one.anonymous_bytes)[:3])


def _all_pids() -> set[int]:
    return {int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()}


def in_initial_namespace() -> bool:
    """Whether process ids are the node's, so that those of a driver or of /proc can be resolved."""
    try:
        return os.readlink("/proc/self/ns/pid") == _INITIAL_PID_NAMESPACE
    except OSError:
        return False
