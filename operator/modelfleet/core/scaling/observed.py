"""What happened since the last decision, over all workers of a deployment: one sample for the policy. Pure.

Each pod is read at its own moment, so each has a cursor: up to where it was counted. The sample's clock is the mean of
the cursors of the pods that serve, so that a rate is right whether a look came early or late.

A pod that says nothing for a moment holds its part of the clock back until it is read. One that is silent is taken to
have what the others have, each, and its cursor goes with theirs; when it comes back, what came in that time is not
counted again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from modelfleet.core.scaling.reading import ObjectiveCounts, Reading
from modelfleet.core.scaling.samples import PodSamples, Samples


@dataclass(frozen=True, slots=True)
class Cursor:
    """Up to where a pod was counted: its `reading` (None before the first), and `until_s`, which is later where what
    came to it was taken from the others."""

    reading: Reading | None
    until_s: float


Cursors = Mapping[str, Cursor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Requests of one objective since the last decision; tokens are of those that finished. `arrivals` are no whole
    number where those of silent pods are taken to have come."""

    arrivals: float = 0
    ended: int = 0
    good: int = 0
    finished: int = 0
    input_tokens: float = 0.0
    output_tokens: float = 0.0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            arrivals=self.arrivals + other.arrivals,
            ended=self.ended + other.ended,
            good=self.good + other.good,
            finished=self.finished + other.finished,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
        )

    def part(self, share: float) -> "Tally":
        """So much of it, as if all had come evenly."""
        ended = round(self.ended * share)
        return Tally(
            arrivals=self.arrivals * share,
            ended=ended,
            good=min(ended, round(self.good * share)),
            finished=round(self.finished * share),
            input_tokens=self.input_tokens * share,
            output_tokens=self.output_tokens * share,
        )


@dataclass(frozen=True, kw_only=True)
class Seen:
    """`at_s` is the sample's clock, None where no serving pod says anything about now. `silent` are serving pods that
    do not. `tallies` are by objective, with what is taken to have come to silent pods; `waiting` is of now."""

    at_s: float | None
    serving: int
    silent: tuple[str, ...]
    tallies: Mapping[str, Tally] = field(default_factory=dict)
    waiting: int = 0
    cursors: Cursors = field(default_factory=dict)

    @property
    def total(self) -> Tally:
        """All objectives together."""
        return sum(self.tallies.values(), Tally())


@dataclass(frozen=True, kw_only=True)
class Look:
    """What is looked at: the promise's digest and its objectives, the pods that serve, and those whose good and late
    requests say nothing about the load, because something else is wrong with them."""

    promise: str
    objectives: tuple[str, ...]
    serving: tuple[str, ...]
    aside: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Step:
    """What is new of a pod: the last of its readings after the one `before`. What came until `since_s` is counted."""

    before: Reading
    last: Reading
    since_s: float

    @property
    def span_s(self) -> float:
        """The seconds that are new."""
        return max(0.0, self.last.at_s - self.since_s)

    def tally(self, promise: str, objective: str) -> Tally:
        """What came in them."""
        tally = grown(self.before.of(promise, objective), self.last.of(promise, objective))
        if self.since_s <= self.before.at_s:
            return tally
        return tally.part(self.span_s / (self.last.at_s - self.before.at_s))


def see(samples: Samples, cursors: Cursors, look: Look) -> Seen:
    """What happened since `cursors`; without any, only from when on to count."""
    pods = {pod.uid: pod for pod in (*samples.gone, *samples.pods.values()) if pod.readings}
    silent, serving = samples.silent(look.serving), frozenset(look.serving)
    steps = {uid: step for uid, pod in pods.items() if (step := _step(pod, cursors)) is not None}
    until_s = _until_s(pods, cursors, silent)
    news_s = sum(step.span_s for uid, step in steps.items() if uid in serving)
    waits = bool(cursors) and not news_s
    fresh = serving.difference(silent)
    at_s = _clock_s(until_s, serving if waits else fresh) if fresh else None
    behind_s = 0.0
    if at_s is not None and not waits:
        behind_s = sum(max(0.0, at_s - until_s.get(uid, at_s)) for uid in silent)
        late = (uid for uid, pod in pods.items() if not pod.fresh(samples.at_s))
        until_s |= {uid: max(at_s, until_s.get(uid, at_s)) for uid in (*late, *silent)}
    more = behind_s / news_s if news_s else 0.0
    return Seen(
        at_s=at_s,
        serving=len(look.serving),
        silent=silent,
        tallies={name: _tally(steps, look, name, more) for name in look.objectives},
        waiting=sum(pods[uid].readings[-1].waiting or 0 for uid in fresh),
        cursors={uid: Cursor(pods[uid].last if uid in pods else None, each) for uid, each in until_s.items()},
    )


def _until_s(pods: Mapping[str, PodSamples], cursors: Cursors, silent: tuple[str, ...]) -> dict[str, float]:
    """Up to where each pod is counted once its readings are; one that was never read, only while it is silent."""
    found = {uid: cursors[uid].until_s for uid in silent if uid in cursors}
    for uid, pod in pods.items():
        at_s, cursor = pod.readings[-1].at_s, cursors.get(uid)
        found[uid] = max(at_s, cursor.until_s) if cursor is not None else at_s
    return found


def _clock_s(until_s: Mapping[str, float], uids: frozenset[str]) -> float:
    """The mean of the cursors. With those of silent pods it stands where it stood: nothing is known of the time since,
    where no pod was read."""
    moments = [until_s[uid] for uid in uids if uid in until_s]
    return sum(sorted(moments)) / len(moments)


def _tally(steps: Mapping[str, _Step], look: Look, objective: str, more: float) -> Tally:
    """What came to all pods, and `more` times as much as came to those that serve, for those that are silent."""
    total, served, serving = Tally(), 0.0, frozenset(look.serving)
    for uid, step in steps.items():
        tally = step.tally(look.promise, objective)
        total += replace(tally, ended=0, good=0) if uid in look.aside else tally
        served += tally.arrivals if uid in serving else 0.0
    return replace(total, arrivals=total.arrivals + served * more) if more else total


def _step(pod: PodSamples, cursors: Cursors) -> _Step | None:
    """What was read of a pod since its cursor; None where nothing was. One that came since the last look counts from
    its first reading."""
    cursor, last = cursors.get(pod.uid), pod.readings[-1]
    before = cursor.reading if cursor is not None else None
    if before is None:
        before = pod.readings[0] if cursors else last
    if before.at_s >= last.at_s:
        return None
    return _Step(before, last, before.at_s if cursor is None else max(before.at_s, cursor.until_s))


def grown(before: ObjectiveCounts | None, after: ObjectiveCounts | None) -> Tally:
    """What came to an objective's counts between two readings of a pod."""
    if after is None:
        return Tally()
    was = before or ObjectiveCounts()
    return Tally(
        arrivals=_grown(was.arrivals, after.arrivals),
        ended=_grown(was.ended.counted, after.ended.counted),
        good=_grown(was.ended.met, after.ended.met),
        finished=_grown(was.ended.finished, after.ended.finished),
        input_tokens=_tokens(was, after, "input_tokens"),
        output_tokens=_tokens(was, after, "output_tokens"),
    )


def _grown(before: int, after: int) -> int:
    return max(0, after - before)


def _tokens(before: ObjectiveCounts, after: ObjectiveCounts, name: str) -> float:
    now, then = getattr(after, name), getattr(before, name)
    return max(0.0, now.sum - (then.sum if then else 0.0)) if now else 0.0
