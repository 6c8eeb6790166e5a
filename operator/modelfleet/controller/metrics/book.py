"""What was read, by ModelDeployment and pod, and which pods there are to read. No I/O; time is the event loop's."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from modelfleet.controller.metrics.workers import Worker
from modelfleet.controller.triggers import Key
from modelfleet.core.scaling.joining import Series
from modelfleet.core.scaling.page import Origin, PageError, Slot, origin, reading
from modelfleet.core.scaling.reading import Reading
from modelfleet.core.scaling.samples import FRESH_S, UNREAD, WINDOW_S, PodSamples, Samples
from modelfleet.core.scaling.step_samples import STEPS_S, cells
from modelfleet.core.scaling.stirs import busy, mark

UNNAMED = "its page does not say which pod it is of: the worker image is older than the operator"


@dataclass
class _Entry:
    """One ModelDeployment."""

    workers: dict[str, Worker] = field(default_factory=dict)
    series: dict[str, Series] = field(default_factory=dict)
    gone: dict[str, Series] = field(default_factory=dict)
    asked: tuple[bool, tuple[str, ...]] | None = None  # what stirred it when that was asked last


class Book:
    """Samples of all keys. What is not followed is not kept: a reading of a pod that ended meanwhile is dropped."""

    def __init__(self, now: Callable[[], float], every_s: float = 0.0) -> None:
        """Workers are looked at every `every_s`."""
        self._now, self._every_s = now, every_s
        self._entries: dict[Key, _Entry] = {}
        self._keys: dict[str, Key] = {}  # by pod uid

    def follow(self, key: Key, found: Iterable[Worker]) -> None:
        """These are the pods of a key now; what one that is not among them counted stays for the window."""
        entry = self._entries.setdefault(key, _Entry())
        present = {each.uid: each for each in found}
        for uid in entry.workers.keys() - present.keys():
            self._keys.pop(uid, None)
            ended = entry.series.pop(uid)
            if ended.pod.readings:
                entry.gone[uid] = ended
        for uid, each in present.items():
            if uid not in entry.series:
                known = uid in entry.gone  # one that was not listed for a moment goes on
                entry.series[uid] = entry.gone.pop(uid) if known else Series(pod=self._unread(each))
            self._keys[uid] = key
        entry.workers = present

    def forget(self, key: Key) -> None:
        """The ModelDeployment is gone."""
        entry = self._entries.pop(key, None)
        for uid in entry.workers if entry else ():
            self._keys.pop(uid, None)

    def samples(self, key: Key) -> Samples:
        """Everything that is known of a key now."""
        now_s = self._now()
        entry = self._entries.get(key)
        if entry is None:
            return Samples(at_s=now_s)
        since_s = now_s - WINDOW_S
        entry.gone = {uid: each for uid, each in entry.gone.items() if each.pod.readings[-1].at_s > since_s}
        pods = {uid: series.pod for uid, series in entry.series.items()}
        return Samples(at_s=now_s, pods=pods, gone=tuple(each.pod for each in entry.gone.values()))

    def stirs(self, key: Key) -> bool:
        """Figures of a key move, or did when this was asked last, or other pods than then say something."""
        entry = self._entries.get(key)
        if entry is None:
            return False
        samples = self.samples(key)
        before, entry.asked = entry.asked, (busy(samples), mark(samples))
        return entry.asked[0] or entry.asked != before

    @property
    def workers(self) -> tuple[Worker, ...]:
        """All pods to read."""
        return tuple(each for entry in self._entries.values() for each in entry.workers.values())

    @property
    def keys(self) -> tuple[Key, ...]:
        """All keys that are followed."""
        return tuple(self._entries)

    def take(self, worker: Worker, found: Mapping[Slot, float], at_s: float) -> str | None:
        """A page that was read for `worker`; why it does not count, or None.

        It counts only if it says itself that it is of this pod: an address may have gone to another pod since."""
        try:
            why = stranger(worker, origin(found))
            page = reading(found, worker.uid, at_s) if why is None else None
        except PageError as error:
            why, page = str(error), None
        if page is None:
            self.fail(worker.uid, why or "")
            return why
        steps = cells(found.items())
        if steps is not None:  # an engine that has taken none is not asked for them at each look
            self._put(worker.uid, lambda series: series.stepped(steps, at_s))
        return self._put(worker.uid, lambda series: series.read(page))

    def wants_steps(self, uid: str) -> bool:
        """Whether it is time to read a pod's steps."""
        key = self._keys.get(uid)
        series = self._entries[key].series[uid] if key is not None else None
        at_s = series.pod.steps_at_s if series is not None else None
        return at_s is None or self._now() - at_s >= STEPS_S

    def was_read(self, uid: str) -> bool:
        """Whether a pod said something within the window."""
        key = self._keys.get(uid)
        pod = self._entries[key].series[uid].pod if key is not None else None
        return pod is not None and bool(pod.readings) and self._now() - pod.readings[-1].at_s < WINDOW_S

    def read_plainly(self, uid: str) -> tuple[Reading, ...]:
        """A pod's readings as its pages had them; none where a restart of its processes was joined over."""
        key = self._keys.get(uid)
        series = self._entries[key].series[uid] if key is not None else None
        return series.pod.readings if series is not None and not series.promises else ()

    @property
    def silent(self) -> int:
        """Followed pods that say nothing about now."""
        now_s = self._now()
        return sum(not series.pod.fresh(now_s) for entry in self._entries.values() for series in entry.series.values())

    def fresh_s(self, uid: str) -> float:
        """How old a pod's last reading may be."""
        key = self._keys.get(uid)
        return self._entries[key].series[uid].pod.fresh_s if key is not None else FRESH_S

    def _unread(self, worker: Worker) -> PodSamples:
        return PodSamples(
            uid=worker.uid, name=worker.name, revision=worker.revision, failure=UNREAD, every_s=self._every_s
        )

    def fail(self, uid: str, why: str) -> None:
        """A pod could not be read; what was read before ages."""
        self._put(uid, lambda series: series.failed(why))

    def _put(self, uid: str, change: Callable[[Series], Series]) -> str | None:
        """What the pod's last look failed by then, None if it did not."""
        key = self._keys.get(uid)
        if key is None:
            return None
        series = self._entries[key].series
        series[uid] = change(series[uid])
        return series[uid].pod.failure


def stranger(worker: Worker, said: Origin) -> str | None:
    """Why a page is not of `worker`; None if it is. The uid decides; the name, where the worker knows no uid."""
    if said.uid:
        return None if said.uid == worker.uid else f"at its address answers another pod, {said.pod}"
    if said.pod:
        return None if said.pod == worker.name else f"at its address answers another pod, {said.pod}"
    return UNNAMED
