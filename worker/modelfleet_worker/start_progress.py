"""Follows a start: what the engine says and reads, in a file that survives the container, on the page, in /startupz."""

import asyncio
import json
import logging
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric

from modelfleet_worker import processes
from modelfleet_worker.failure import Failure
from modelfleet_worker.parts import Around, Equipment, Part
from modelfleet_worker.start_outlook import Heard, Outlook, Phase, heard, outlook
from modelfleet_worker.state import State
from modelfleet_worker.waiting import in_thread

FILE = "start.json"
_PERIOD_S = 0.5
_log = logging.getLogger(__name__)
_WEIGHTS = {".safetensors", ".bin", ".pt", ".pth", ".gguf"}


class StartProgress(Part):
    """Keeps `progress.outlook` true, and FILE in the pod's runtime folder, which an exchange of the file never leaves
    half written. The next container of the pod measures its own start by the last whole one."""

    def __init__(self, around: Around) -> None:
        self._around, self._progress = around, around.progress
        self._file = around.runtime / FILE
        self._earlier_s = _earlier_s(self._file, around.plan.revision)
        self._loop = asyncio.get_running_loop()
        self._share: tuple[Phase, float] | None = None
        self._weights_bytes = 0
        self._read_before_bytes: int | None = None

    def equip(self, code: Path) -> Equipment:
        """What an earlier engine of this worker did tells nothing of the next."""
        self._share = self._read_before_bytes = None
        return Equipment()

    def heard(self, line: str) -> None:
        if self._progress.state is State.STARTING and (said := heard(line)) is not None:
            self._loop.call_soon_threadsafe(self._take_in, said, time.monotonic())

    async def watch(self) -> Failure:
        self._weights_bytes = await in_thread(_weights_bytes, Path(self._around.plan.model_path))
        while self._progress.phase is not None:
            self._report(self._earlier_s)
            await asyncio.sleep(_PERIOD_S)
        self._report(self._progress.phases_s(0.0))
        return await super().watch()

    def metrics(self) -> Iterable[Metric]:
        known = self._progress.outlook
        text = "Share of the whole start that is done, by an earlier start of this pod; no sample: not known."
        yield _gauge("modelfleet_worker_start_progress_ratio", text, known.share)
        text = "How long the start will still take, by an earlier start of this pod; no sample: not known."
        yield _gauge("modelfleet_worker_start_left_seconds", text, known.left_s)
        text = "Share of the present phase that is done, as the engine or its reading tells; no sample: not known."
        yield _gauge("modelfleet_worker_start_phase_progress_ratio", text, known.phase_share)

    def _take_in(self, said: Heard, at_s: float) -> None:
        """At once: a phase that is shorter than the file's period is measured too."""
        self._progress.enter(said.phase, at_s)
        if said.share is not None:
            self._share = said.phase, said.share

    def _report(self, earlier_s: Mapping[Phase, float]) -> None:
        phase, took_s = self._progress.phase, self._progress.phases_s(time.monotonic())
        self._progress.outlook = outlook(phase, took_s, self._phase_share(phase), self._earlier_s)
        value = _as_json(self._around.plan.revision, phase, took_s, self._progress.outlook, earlier_s)
        _exchange(self._file, value)

    def _phase_share(self, phase: Phase | None) -> float | None:
        said = self._share[1] if self._share is not None and self._share[0] is phase else None
        read = self._read_share() if phase is Phase.LOAD else None
        return said if read is None else max(said or 0.0, read)

    def _read_share(self) -> float | None:
        """The part of the weights that was read from disk since the load began; None if all comes from memory."""
        read_bytes = sum(processes.read_bytes(process.pid) for process in processes.below(os.getpid()))
        if self._read_before_bytes is None:
            self._read_before_bytes = read_bytes
        since_bytes = read_bytes - self._read_before_bytes
        return min(1.0, since_bytes / self._weights_bytes) if self._weights_bytes and since_bytes > 0 else None


def _gauge(name: str, text: str, value: float | None) -> Metric:
    family = GaugeMetricFamily(name, text)
    if value is not None:
        family.add_metric([], value)
    return family


def _as_json(
    revision: str, phase: Phase | None, took_s: Mapping[Phase, float], known: Outlook, earlier_s: Mapping[Phase, float]
) -> dict[str, Any]:
    return {
        "revision": revision,
        "phase": phase,
        "phases_s": {one: round(seconds, 1) for one, seconds in took_s.items()},
        "earlier_s": {one: round(seconds, 1) for one, seconds in earlier_s.items()},
        **known.to_json(),
    }


def _exchange(path: Path, value: Mapping[str, Any]) -> None:
    fresh = path.with_suffix(".new")
    try:
        fresh.write_text(json.dumps(value))
        fresh.replace(path)
    except OSError as error:  # a full volume: the file is a report, and the page tells the same
        _log.debug("%s cannot be written: %s", path, error)


def _earlier_s(path: Path, revision: str) -> dict[Phase, float]:
    """The phases of the last whole start of `revision` in this pod; empty if there was none or it cannot be read."""
    try:
        value = json.loads(path.read_text())
        if value["revision"] != revision:
            return {}
        return {Phase(name): float(seconds) for name, seconds in value["earlier_s"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _weights_bytes(folder: Path) -> int:
    try:
        return sum(path.stat().st_size for path in folder.iterdir() if path.suffix in _WEIGHTS)
    except OSError:
        return 0
