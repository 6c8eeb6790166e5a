"""Rules on requests in flight: Knative's KPA, AIBrix's KPA, KubeAI, Ray Serve."""

from math import ceil

from modelfleet.sim.fleet import Observation
from modelfleet.sim.peers.series import Series


def in_flight(seen: Observation) -> float:
    """Requests in all serving replicas."""
    return float(sum(one.running + one.waiting for one in seen.replicas))


class Kpa:
    """Knative: the mean of 60 s, or in panic the mean of 6 s, over the target; in panic never down."""

    tick_s = 2.0

    def __init__(self, target: float) -> None:
        self._target = target
        self._seen = Series(60.0)
        self._panic_since_s: float | None = None
        self._panic_most = 0

    def wish(self, seen: Observation) -> int:
        """The rule. Panic lasts until the short window was below its threshold for a whole stable window."""
        now = seen.provisioned
        ready = max(len(seen.replicas), 1)
        self._seen.add(seen.now_s, in_flight(seen))
        stable = self._wanted(self._seen.mean(seen.now_s), ready)
        panic = self._wanted(self._seen.mean(seen.now_s, 6.0), ready)
        if panic / ready >= 2:
            self._panic_since_s = seen.now_s
        elif self._panic_since_s is not None and seen.now_s - self._panic_since_s >= 60:
            self._panic_since_s, self._panic_most = None, 0
        if self._panic_since_s is None:
            return stable
        self._panic_most = max(self._panic_most, panic, now)
        return self._panic_most

    def _wanted(self, concurrency: float, ready: int) -> int:
        return min(max(ceil(concurrency / self._target), ready // 2), 1000 * ready)


class AibrixKpa:
    """The same windows; as shipped the mean of a pod over the target is not multiplied by the pods."""

    tick_s = 10.0

    def __init__(self, target: float, *, corrected: bool) -> None:
        self._target, self._corrected = target, corrected
        self._seen = Series(60.0)

    def wish(self, seen: Observation) -> int:
        """The rule."""
        ready = max(len(seen.replicas), 1)
        self._seen.add(seen.now_s, in_flight(seen) if self._corrected else in_flight(seen) / ready)
        stable = ceil(self._seen.mean(seen.now_s) / self._target)
        panic = ceil(self._seen.mean(seen.now_s, 6.0) / self._target)
        return max(stable, panic, seen.provisioned) if panic / ready >= 2 else stable


class KubeAi:
    """ceil(mean in flight over 10 min / target); down only after three low decisions in a row."""

    tick_s = 10.0

    def __init__(self, target: float) -> None:
        self._target = target
        self._seen = Series(600.0)
        self._low = 0

    def wish(self, seen: Observation) -> int:
        """The rule."""
        self._seen.add(seen.now_s, in_flight(seen))
        raw = ceil(self._seen.mean(seen.now_s) / self._target)
        self._low = self._low + 1 if raw < seen.provisioned else 0
        return seen.provisioned if 0 < self._low < 3 else raw


class RayServe:
    """ceil(n × mean ongoing over 30 s / target), after the same wish for 30 s up or 600 s down. The rule is looked at
    each 0.1 s; here each second, which its delays make the same."""

    tick_s = 1.0

    def __init__(self, target: float) -> None:
        self._target = target
        self._seen = Series(30.0)
        self._up_since_s: float | None = None
        self._down_since_s: float | None = None

    def wish(self, seen: Observation) -> int:
        """The rule."""
        now = seen.provisioned
        self._seen.add(seen.now_s, in_flight(seen))
        raw = ceil(self._seen.mean(seen.now_s) / self._target)
        if raw == now:
            self._up_since_s = self._down_since_s = None
            return now
        if raw > now:
            self._down_since_s = None
            self._up_since_s = seen.now_s if self._up_since_s is None else self._up_since_s
            return raw if seen.now_s - self._up_since_s >= 30 else now
        self._up_since_s = None
        self._down_since_s = seen.now_s if self._down_since_s is None else self._down_since_s
        return raw if seen.now_s - self._down_since_s >= 600 else now
