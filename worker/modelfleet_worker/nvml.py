"""NVIDIA devices by the driver's management library: NVML, through nvidia-ml-py, imported only when it is asked for."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from modelfleet_worker.devices import Device, DevicesError, Holder, Trouble, Xid

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_NAMELESS = "a device without a name"
# XIDs after which the device may be used on, by NVIDIA's XID catalogue (docs.nvidia.com/deploy/xid-errors): after those
# of the first set it is enough to restart the program, those of the second may be ignored.
_RESTART = {8, 11, 13, 25, 31, 32, 39, 40, 41, 60, *range(68, 73), 75, 76, 77, 80, *range(82, 87), 88, 89, 94}
_RESTART |= {*range(96, 106), *range(126, 136), 139}
_IGNORE = {14, 37, 38, 43, 44, 63, 66, 67, 92, 93, 106, 107, 108, 121, 137, 141, 152, 153, 157, 160, 161}
# 45 and 154 come beside another, which tells more. After 109, a context switch that took too long, the catalogue wants
# a reset; NVIDIA's device plugin counts it among the errors of programs and goes on with the device, and so do we.
_OF_PROGRAMS = frozenset(_RESTART | _IGNORE | {45, 109, 154})
# An idle device shows up to 700 MiB in use by the older call, and a few MiB by the newer one.
_NOISE_V1_BYTES, _NOISE_V2_BYTES = 1 << 30, 256 << 20


@dataclass(frozen=True, kw_only=True)
class _Place:
    """A device or a slice. `trouble`: the driver gives no handle to it for that reason."""

    handle: Any = None
    parent: Any = None
    trouble: Trouble | None = None


class NvmlDevices:
    """`nvml` has the functions of the module pynvml; None imports that module. `visible` is CUDA_VISIBLE_DEVICES."""

    def __init__(self, nvml: Any = None, visible: str | None = None) -> None:
        """Raises DevicesError where the library is missing or does not start."""
        self._nvml = nvml if nvml is not None else _pynvml()
        self._visible = _visible(os.environ.get(_VISIBLE) if visible is None else visible)
        self._events: Any = None
        if self._visible == ():
            raise DevicesError(f"{_VISIBLE} hides every device", absent=True)
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as error:
            absent = error.value == self._nvml.NVML_ERROR_LIBRARY_NOT_FOUND
            raise DevicesError(str(error), absent=absent) from error

    def read(self) -> Sequence[Device]:
        """See Devices."""
        try:
            places = list(self._places())
        except self._nvml.NVMLError as error:
            raise DevicesError(str(error)) from error
        if not places:
            raise DevicesError("the driver shows no device to this container")
        return [self._device(index, place) for index, place in enumerate(places)]

    def xids(self) -> Sequence[Xid]:
        """See Devices. Errors that a program can cause itself, and those that harm none, are left out."""
        if self._events is None:
            self._events = self._registered()
        found = []
        while self._events is not False:
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._events, 0)
            except self._nvml.NVMLError:
                break  # nothing (a time-out), or nothing that can be read
            if event.eventData not in _OF_PROGRAMS:
                found.append(Xid(self._uuid(event.device), int(event.eventData), time.monotonic()))
        return found

    def _registered(self) -> Any:
        """A set of events for every device; False where the driver gives none, as for slices."""
        try:
            events = self._nvml.nvmlEventSetCreate()
        except self._nvml.NVMLError:
            return False
        for index in range(self._ask(self._nvml.nvmlDeviceGetCount, 0)):
            with suppress(self._nvml.NVMLError):
                handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
                self._nvml.nvmlDeviceRegisterEvents(handle, self._nvml.nvmlEventTypeXidCriticalError, events)
        return events

    def _places(self) -> Iterator[_Place]:
        """Each device, or each slice of one that is cut into slices, with the device that it is a slice of."""
        for number in range(self._nvml.nvmlDeviceGetCount()):
            try:
                handle = self._nvml.nvmlDeviceGetHandleByIndex(number)
            except self._nvml.NVMLError as error:  # one that is off the bus leaves the others to be read
                if not self._is_visible(number, ""):
                    continue
                trouble = self._fatal(error)
                if trouble is None:
                    raise DevicesError(f"accelerator {number}: {error}") from error
                yield _Place(trouble=trouble)
                continue
            slices = list(self._slices(handle))
            for one in slices or [handle]:
                if self._is_visible(number, self._uuid(one)):
                    yield _Place(handle=one, parent=handle if slices else None)

    def _slices(self, handle: Any) -> Iterator[Any]:
        mode = self._ask(lambda: self._nvml.nvmlDeviceGetMigMode(handle), (0, 0))
        if not mode[0]:
            return
        for index in range(self._ask(lambda: self._nvml.nvmlDeviceGetMaxMigDeviceCount(handle), 0)):
            with suppress(self._nvml.NVMLError):  # a place where there is no slice, or not ours
                yield self._nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)

    def _is_visible(self, number: int, uuid: str) -> bool:
        """One that tells no uuid is taken for visible where uuids are listed: it may be the one that is missed."""
        if self._visible is None:
            return True
        return any(
            one == str(number) or (not one.isdigit() and (not uuid or uuid.startswith(one))) for one in self._visible
        )

    def _device(self, index: int, place: _Place) -> Device:
        handle, parent = place.handle, place.parent
        if place.trouble is not None:
            return Device(index=index, name=_NAMELESS, uuid="", usable_bytes=0, used_bytes=0, trouble=place.trouble)
        name = _text(self._ask(lambda: self._nvml.nvmlDeviceGetName(handle), _NAMELESS))
        uuid = self._uuid(handle)
        try:
            usable, used, noise = self._memory(handle)
        except self._nvml.NVMLError as error:
            trouble = self._fatal(error)
            if trouble is None:
                raise DevicesError(f"{name} does not tell its memory: {error}") from error
            return Device(index=index, name=name, uuid=uuid, usable_bytes=0, used_bytes=0, trouble=trouble)
        of = parent if parent is not None else handle
        return Device(
            index=index,
            name=name,
            uuid=uuid,
            usable_bytes=usable,
            used_bytes=used,
            noise_bytes=noise,
            holders=self._holders(handle),
            ecc_uncorrected=self._uncorrected(of),
            trouble=self._rows(of),
            slice_of=self._uuid(parent) if parent is not None else "",
        )

    def _uuid(self, handle: Any) -> str:
        return _text(self._ask(lambda: self._nvml.nvmlDeviceGetUUID(handle), ""))

    def _memory(self, handle: Any) -> tuple[int, int, int]:
        """Usable and used bytes, and what shows as used on an idle device.

        The older call counts what the driver keeps for itself as used.
        """
        try:
            info = self._nvml.nvmlDeviceGetMemoryInfo(handle, version=self._nvml.nvmlMemory_v2)
        except self._nvml.NVMLError as error:
            unknown = (self._nvml.NVML_ERROR_FUNCTION_NOT_FOUND, self._nvml.NVML_ERROR_NOT_SUPPORTED)
            if error.value not in unknown:
                raise
            info = self._nvml.nvmlDeviceGetMemoryInfo(handle)
            return info.total, info.used, _NOISE_V1_BYTES
        return info.total - info.reserved, info.used, _NOISE_V2_BYTES

    def _holders(self, handle: Any) -> tuple[Holder, ...] | None:
        found = self._ask(lambda: self._nvml.nvmlDeviceGetComputeRunningProcesses(handle), None)
        if found is None:
            return None
        return tuple(Holder(pid=one.pid, used_bytes=one.usedGpuMemory) for one in found)

    def _uncorrected(self, handle: Any) -> int | None:
        kind, since = self._nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, self._nvml.NVML_VOLATILE_ECC
        count: int | None = self._ask(lambda: self._nvml.nvmlDeviceGetTotalEccErrors(handle, kind, since), None)
        return count

    def _rows(self, handle: Any) -> Trouble | None:
        """Memory rows that could not be replaced, or wait for a reset to be."""
        _, _, pending, failed = self._ask(lambda: self._nvml.nvmlDeviceGetRemappedRows(handle), (0, 0, 0, 0))
        return Trouble.ROWS_FAILED if failed else Trouble.ROWS_PENDING if pending else None

    def _fatal(self, error: Any) -> Trouble | None:
        kinds = {
            self._nvml.NVML_ERROR_GPU_IS_LOST: Trouble.LOST,
            self._nvml.NVML_ERROR_RESET_REQUIRED: Trouble.RESET_REQUIRED,
        }
        return kinds.get(error.value)

    def _ask(self, call: Callable[[], Any], otherwise: Any) -> Any:
        """What `call` answers; `otherwise` where this device or this user may not be asked that."""
        try:
            return call()
        except self._nvml.NVMLError:
            return otherwise


def _pynvml() -> Any:
    try:
        import pynvml
    except ImportError as error:
        raise DevicesError(
            "the package nvidia-ml-py is missing; install modelfleet with the extra supervisor", absent=True
        ) from error
    return pynvml


def _visible(text: str | None) -> tuple[str, ...] | None:
    """None: all. Empty: none."""
    if text is None:
        return None
    return tuple(part.strip() for part in text.split(",") if part.strip() and part.strip() != "-1")


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
