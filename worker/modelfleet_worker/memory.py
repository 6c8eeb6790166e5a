"""The worker's part that looks after memory: checks before a start, watches, explains a death. Reads devices, files."""

import asyncio
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from math import inf
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily, Metric

from modelfleet_worker import processes
from modelfleet_worker.cgroup import Held, Host
from modelfleet_worker.devices import Device, Devices, DevicesError, Xid
from modelfleet_worker.engine_settings import engine_settings
from modelfleet_worker.failure import Failure, Reason
from modelfleet_worker.memory_box import BlackBox, counted, spare_bytes
from modelfleet_worker.memory_cause import Facts, account
from modelfleet_worker.memory_check import check_devices, check_host, unavailable
from modelfleet_worker.memory_log import Listener
from modelfleet_worker.memory_samples import HOST_TOLERANCE_BYTES, Sample
from modelfleet_worker.nvml import NvmlDevices
from modelfleet_worker.parts import Around, Equipment, Part
from modelfleet_worker.recent_inputs import forget_inputs, recent_inputs
from modelfleet_worker.state import State
from modelfleet_worker.waiting import in_thread

PERIOD_S = 2.0
KEPT_S = 300.0
_LOOKS = 8  # in each period at most, at whether memory runs short
_FILL_BYTES_PER_S = 16 << 30  # what some threads touch in a second of a host's memory; none runs short unseen for less
_KILLED_WHOLE = Failure(
    reason=Reason.ENGINE_DIED,
    message="The kernel killed the container for lack of memory.",
    remedy="Raise the class's hostPerAccelerator.memory.",
    phase=State.SERVING,
)
_RELEASE_S = 2.0  # a driver takes a moment to give back what a killed process held
_INITIAL_PID_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of the kernel: here, process ids are the node's
_log = logging.getLogger(__name__)


class Memory(Part):
    """Samples every PERIOD_S, in a thread, and keeps the last KEPT_S."""

    def __init__(self, around: Around, devices: Callable[[], Devices] = NvmlDevices) -> None:
        """`devices` opens the driver's library; it raises DevicesError."""
        self._around = around
        self._open = devices
        self._host = Host()
        self._box = BlackBox(around.termination_log)
        self._settings = engine_settings(around.plan.args)
        self._devices: Devices | None = None
        self._listener = Listener()
        self._serves = False
        self._before: Sample | None = None
        self._ring: deque[Sample] = deque(maxlen=int(KEPT_S / PERIOD_S))
        self._xids: list[Xid] = []

    async def check(self) -> Failure | None:
        return await in_thread(self._check)

    def equip(self, code: Path) -> Equipment:
        forget_inputs(self._around.board.folder)
        return Equipment()

    def heard(self, line: str) -> None:
        if not self._serves and self._around.progress.state in (State.SERVING, State.DRAINING):
            self._serves = True
            self._listener.forget_start()
        self._listener.add(line)

    async def watch(self) -> Failure:
        try:
            while True:
                self._ring.append(await in_thread(self._sample))
                until_s = time.monotonic() + PERIOD_S
                while (left_s := until_s - time.monotonic()) > 0:  # noqa: ASYNC110 (memory that fills has no event)
                    await asyncio.sleep(min(left_s, max(self._foresee(), PERIOD_S / _LOOKS)))
        finally:
            self._box.clear()

    def explain(self, failure: Failure) -> Failure:
        if failure.reason is Reason.ENGINE_HUNG:
            return failure
        return account(failure, self._facts(self._after()))

    def metrics(self) -> Iterable[Metric]:
        if not self._ring:
            return
        last = self._ring[-1]
        used = GaugeMetricFamily(
            "modelfleet_worker_accelerator_used_bytes", "Memory in use on an accelerator.", labels=["device"]
        )
        for device in last.devices:
            used.add_metric([str(device.index)], device.used_bytes)
        yield used
        text = "Host memory that this worker's processes hold for themselves."
        yield GaugeMetricFamily("modelfleet_worker_host_own_bytes", text, last.own_bytes)
        if last.host is not None:
            text = "Processes of the container that were killed for lack of memory."
            yield GaugeMetricFamily("modelfleet_worker_oom_kills", text, last.host.oom_kills)

    def _facts(self, after: Sample) -> Facts:
        return Facts(
            settings=self._settings,
            said=self._listener.said(),
            before=self._before,
            ring=tuple(self._ring),
            after=after,
            inputs=recent_inputs(self._around.board.folder),
            xids=tuple(self._xids),
        )

    def _foresee(self) -> float:
        """Writes down what a kill of the whole container would have to be explained with, while memory is short: then
        nobody is left to do it. Two small files are read for it. Gives the seconds for which it cannot become short."""
        host = self._host.memory()
        spare = inf if host is None else spare_bytes(host, self._host.node())
        if spare > 0:
            self._box.clear()
        else:
            self._box.keep(lambda: account(_KILLED_WHOLE, self._facts(counted(self._sample()))))
        return spare / _FILL_BYTES_PER_S

    def _check(self) -> Failure | None:
        stated = self._around.plan.memory
        try:
            self._devices = self._open()
            devices = self._devices.read()
            self._devices.xids()  # those of before are nobody's
        except DevicesError as error:
            self._devices = None
            if not error.absent or stated.device == "Cuda":
                return unavailable(str(error))
            devices = ()
        self._before = self._sample()
        for device in devices:
            if device.ecc_uncorrected:
                _log.warning("%s has %d uncorrectable memory errors", device.name, device.ecc_uncorrected)
        if devices:
            return check_devices(devices, self._settings, stated.accelerator_bytes)
        return check_host(self._before, self._settings)

    def _sample(self) -> Sample:
        # What is ours first: a process that ends in between is then counted as ours, and never as somebody else's.
        ours = [os.getpid(), *processes.descendants(os.getpid())]
        own_bytes = sum(held.anonymous_bytes for held in self._host.held(ours))
        host = self._host.memory()
        devices: tuple[Device, ...] = ()
        if self._devices is not None:
            try:
                devices = tuple(self._devices.read())
                self._xids += self._devices.xids()
            except DevicesError as error:
                _log.warning("the accelerators cannot be asked: %s", error)
        others = self._largest(set(self._host.members()) - set(ours)) if host and host.limit_bytes else ()
        return Sample(
            at_s=time.monotonic(),
            devices=devices,
            host=host,
            node=self._host.node(),
            own_bytes=own_bytes,
            others=others,
        )

    def _after(self) -> Sample:
        """A sample when our processes are gone, with what the driver has not given back yet waited for."""
        sample, start_s = self._sample(), time.monotonic()
        while any(device.used_bytes > device.noise_bytes for device in sample.devices):
            if time.monotonic() - start_s > _RELEASE_S:
                break
            time.sleep(0.2)
            sample = self._sample()
        if not sample.devices and in_initial_namespace():
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
