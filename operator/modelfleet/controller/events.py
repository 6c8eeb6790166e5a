"""Events on the user's objects: few, counted, and never in the way of a reconcile. I/O on a task of its own.

One Event object tells one (object, type, reason, note). Repeats are counted in its series and written at most once in
SERIES_S; new notes of one (object, reason) are limited to a burst and a rate. Memory is bounded.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Generic, TypeVar

from modelfleet.api import names
from modelfleet.controller.cluster import ApiError, Cluster, Conflict, Missing, WriteResult, Written
from modelfleet.controller.resources import EVENTS
from modelfleet.core.effects import Event
from modelfleet.core.snapshot import Raw

_log = logging.getLogger(__name__)

CONTROLLER = f"{names.GROUP}/operator"
SERIES_S = 120.0
BURST = 10
REFILL_S = 60.0
QUEUE_LIMIT = 512
MEMORY_LIMIT = 4096
_NOTE_LIMIT = 1024  # of events.k8s.io/v1

V = TypeVar("V")


@dataclass
class _Series:
    count: int
    written_at_s: float


@dataclass
class _Bucket:
    tokens: float
    at_s: float


class _Lru(Generic[V]):
    """The most recent MEMORY_LIMIT values."""

    def __init__(self) -> None:
        self._values: OrderedDict[Any, V] = OrderedDict()

    def get(self, key: object) -> V | None:
        if key in self._values:
            self._values.move_to_end(key)
        return self._values.get(key)

    def put(self, key: object, value: V) -> V:
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > MEMORY_LIMIT:
            self._values.popitem(last=False)
        return value


class Recorder:
    """Takes events at once, writes them later, drops what is too much (and counts it)."""

    def __init__(
        self,
        cluster: Cluster,
        instance: str,
        now: Callable[[], datetime],
        dropped: Callable[[], None] = lambda: None,
    ) -> None:
        self._cluster, self._instance, self._now, self._dropped = cluster, instance[:128], now, dropped
        self._queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue(QUEUE_LIMIT)
        self._series: _Lru[_Series] = _Lru()
        self._buckets: _Lru[_Bucket] = _Lru()

    def record(self, regarding: Raw, event: Event) -> None:
        """Have the event written soon. Never waits, never raises."""
        try:
            self._queue.put_nowait(self._manifest(regarding, event))
        except asyncio.QueueFull:
            self._dropped()

    async def run(self) -> None:
        """Writes until cancelled."""
        while True:
            await self._write_next()

    async def flush(self) -> None:
        """Writes what is waiting, for the end of the process."""
        while not self._queue.empty():
            await self._write_next()

    async def _write_next(self) -> None:
        manifest = await self._queue.get()
        try:
            await self._write(manifest)
        except ApiError as error:
            self._dropped()
            _log.info("an event was not written: %s", error)

    async def _write(self, manifest: dict[str, Any]) -> None:
        name, now_s = manifest["metadata"]["name"], asyncio.get_running_loop().time()
        series = self._series.get(name)
        if series is None:
            if not self._allowed(manifest, now_s):
                self._dropped()
                return
            await self._begin(manifest, now_s)
            return
        series.count += 1
        if now_s - series.written_at_s < SERIES_S:
            return
        series.written_at_s = now_s
        if isinstance(await self._count(manifest, series.count), Missing):  # its time to live is over
            await self._begin(manifest, now_s)

    async def _begin(self, manifest: dict[str, Any], now_s: float) -> None:
        """The first of its series that this process knows of; an earlier process may have begun it."""
        metadata = manifest["metadata"]
        count = 1
        result = await self._cluster.create(manifest)
        if isinstance(result, Conflict):
            stored = await self._cluster.get(EVENTS, metadata["name"], metadata["namespace"]) or {}
            count = int((stored.get("series") or {}).get("count", 1)) + 1
            result = await self._count(manifest, count)
        if isinstance(result, Written):
            self._series.put(metadata["name"], _Series(count, now_s))
        else:
            self._dropped()
            _log.info("an event was not taken: %s", result.message)

    async def _count(self, manifest: dict[str, Any], count: int) -> WriteResult:
        metadata = manifest["metadata"]
        series = {"count": count, "lastObservedTime": manifest["eventTime"]}
        return await self._cluster.merge(EVENTS, metadata["name"], metadata["namespace"], {"series": series})

    def _allowed(self, manifest: dict[str, Any], now_s: float) -> bool:
        key = (manifest["regarding"]["uid"], manifest["reason"])
        bucket = self._buckets.get(key) or self._buckets.put(key, _Bucket(BURST, now_s))
        bucket.tokens = min(BURST, bucket.tokens + (now_s - bucket.at_s) / REFILL_S)
        bucket.at_s = now_s
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    def _manifest(self, regarding: Raw, event: Event) -> dict[str, Any]:
        metadata = regarding["metadata"]
        note = event.message if len(event.message) <= _NOTE_LIMIT else event.message[: _NOTE_LIMIT - 1] + "…"
        identity = "\n".join((metadata["uid"], event.type, event.reason, note))
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {
                "name": f"{metadata['name'][:200]}.{sha256(identity.encode()).hexdigest()[:16]}",
                "namespace": metadata["namespace"],
            },
            "eventTime": self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "type": event.type,
            "reason": event.reason,
            "note": note,
            "action": "Reconcile",
            "regarding": {
                "apiVersion": regarding["apiVersion"],
                "kind": regarding["kind"],
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance,
        }
