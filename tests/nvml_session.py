"""Recorded sessions of NVIDIA's management library, in the shape of nvidia-ml-py's calls, and their player.

`python tests/nvml_session.py FILE` records one on a machine with a device. A session is JSON: for each function of the
library its answers by handle, {"gives": VALUE} or {"raises": NVML's error number}; where a function takes no handle,
one answer. Handles are "0", "1", and "0/0" for a slice.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml

FOLDER = Path(__file__).parent / "unit" / "worker" / "nvml"
_OF_DEVICE = (
    "nvmlDeviceGetName",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetRemappedRows",
)


class RecordedNvml:
    """Stands in for the module pynvml: its constants and errors are the real ones, its functions answer as recorded.

    A function or a handle that was not recorded is an AssertionError: a session holds all that is asked.
    """

    NVMLError = pynvml.NVMLError

    def __init__(self, session: dict[str, Any]) -> None:
        self._session = session
        self._events = list(session.get("events", ()))

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml") or name in ("nvmlMemory_v2", "nvmlEventTypeXidCriticalError"):
            return getattr(pynvml, name)
        return lambda *args, **options: self._answer(name, args, options)

    def _answer(self, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        if name == "nvmlDeviceGetHandleByIndex":
            handle = str(args[0])
            return self._told(self._session["calls"].get(name, {}).get(handle, {"gives": handle}))
        if name == "nvmlDeviceGetMigDeviceHandleByIndex":
            return self._slice(f"{args[0]}/{args[1]}")
        if name in ("nvmlEventSetCreate", "nvmlDeviceRegisterEvents"):
            return self._told(self._session.get(name, {"gives": "events"}))
        if name == "nvmlEventSetWait_v2":
            if not self._events:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_TIMEOUT)
            return SimpleNamespace(**self._events.pop(0))
        if options:
            name += "_v2"
        recorded = self._session["calls"].get(name)
        assert recorded is not None, f"the session has no {name}"
        if args and not {"gives", "raises"} & recorded.keys():
            assert args[0] in recorded, f"the session has no {name} of {args[0]}"
            recorded = recorded[args[0]]
        return self._told(recorded)

    def _slice(self, handle: str) -> str:
        if handle not in self._session["calls"]["nvmlDeviceGetName"]:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return handle

    def _told(self, recorded: Any) -> Any:
        if "raises" in recorded:
            raise pynvml.NVMLError(recorded["raises"])
        value = recorded["gives"]
        if isinstance(value, list) and all(isinstance(item, dict) for item in value):
            return [SimpleNamespace(**item) for item in value]
        return SimpleNamespace(**value) if isinstance(value, dict) else value


def session(name: str) -> RecordedNvml:
    """The player of a committed session."""
    return RecordedNvml(json.loads((FOLDER / f"{name}.json").read_text()))


def record() -> dict[str, Any]:
    """A session of this machine's devices. Raises pynvml.NVMLError where there is none."""
    pynvml.nvmlInit()
    count = pynvml.nvmlDeviceGetCount()
    handles, given = {}, {}
    for index in range(count):
        found = _recorded(pynvml.nvmlDeviceGetHandleByIndex, index, raw=True)
        given[str(index)] = {"gives": str(index)} if "gives" in found else found
        handles |= {str(index): found["gives"]} if "gives" in found else {}
    for index, whole in list(handles.items()):
        for place in range(_recorded(pynvml.nvmlDeviceGetMaxMigDeviceCount, whole).get("gives", 0)):
            found = _recorded(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, whole, place, raw=True)
            if "gives" in found:
                handles[f"{index}/{place}"] = found["gives"]
    calls: dict[str, Any] = {"nvmlInit": {"gives": None}, "nvmlDeviceGetCount": {"gives": count}}
    calls["nvmlDeviceGetHandleByIndex"] = given
    for name in _OF_DEVICE:
        calls[name] = {key: _recorded(_function(name), handle) for key, handle in handles.items()}
    return {"source": pynvml.nvmlSystemGetDriverVersion(), "calls": calls}


def _function(name: str) -> Callable[..., Any]:
    if name.endswith("_v2"):
        return lambda handle: pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    if name == "nvmlDeviceGetTotalEccErrors":
        return lambda handle: pynvml.nvmlDeviceGetTotalEccErrors(
            handle, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
        )
    found: Callable[..., Any] = getattr(pynvml, name)
    return found


def _recorded(function: Callable[..., Any], *args: Any, raw: bool = False) -> dict[str, Any]:
    try:
        value = function(*args)
    except pynvml.NVMLError as error:
        return {"raises": error.value}
    return {"gives": value if raw else _plain(value)}


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if hasattr(value, "_fields_"):
        return {name: getattr(value, name) for name, *_ in value._fields_}
    return value.decode() if isinstance(value, bytes) else value


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(record(), indent=1) + "\n")
