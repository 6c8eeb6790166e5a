"""The rules of Kubernetes' HPA and what builds on it: HPA, KEDA with its defaults, Kthena, AIBrix's APA."""

from collections.abc import Callable
from math import ceil
from operator import attrgetter

from modelfleet.sim.fleet import Observation, ReplicaView
from modelfleet.sim.peers.series import Series

Signal = Callable[[ReplicaView], float]

QUEUE: Signal = attrgetter("waiting")
RUNNING: Signal = attrgetter("running")
KV: Signal = attrgetter("kv_use")


def faster_up(now: int, wish: int, most: int = 4) -> int:
    """HPA's default limit on the way up: the larger of 100 % and four pods, each 15 s."""
    return min(wish, now + max(now, most))


class Hpa:
    """n' = ceil(n × mean / target), with 10 % tolerance; starting pods count as 0 on the way up, as on target on the
    way down; down only to the highest wish of the last 300 s."""

    tick_s = 15.0

    def __init__(self, signal: Signal, target: float) -> None:
        self._signal, self._target = signal, target
        self._wishes = Series(300.0)

    def wish(self, seen: Observation) -> int:
        """The rule, with its stabilisation."""
        total = sum(self._signal(one) for one in seen.replicas)
        now = seen.provisioned
        ratio = total / max(len(seen.replicas), 1) / self._target
        if ratio > 1 and seen.pending_s:
            ratio = max(1.0, total / now / self._target)
        elif ratio < 1 and seen.pending_s:
            ratio = min(1.0, (total + len(seen.pending_s) * self._target) / now / self._target)
        raw = now if abs(ratio - 1) <= 0.1 else ceil(now * ratio)
        self._wishes.add(seen.now_s, raw)
        return faster_up(now, raw) if raw > now else min(now, round(self._wishes.highest()))


class Keda:
    """As production-stack ships it: the largest of four triggers; a pod a minute up, one a minute down after 300 s."""

    tick_s = 15.0

    def __init__(self, scale: float = 1.0) -> None:
        self._scale = scale
        self._wishes = Series(300.0)
        self._traffic = Series(120.0)
        self._made, self._computed = Series(60.0), Series(60.0)
        self._changed_s = float("-inf")

    def wish(self, seen: Observation) -> int:
        """The rule."""
        now = seen.provisioned
        self._traffic.add(seen.now_s, seen.arrivals)
        self._made.add(seen.now_s, seen.made_tokens / self.tick_s)
        self._computed.add(seen.now_s, seen.computed_tokens / self.tick_s)
        running = sum(one.running for one in seen.replicas)
        raw = max(
            1 if self._traffic.highest() else 0,
            ceil(running / (5 * self._scale)),
            ceil(self._made.mean(seen.now_s) / (100 * self._scale)),
            ceil(self._computed.mean(seen.now_s) / (100 * self._scale)),
        )
        self._wishes.add(seen.now_s, raw)
        wanted = raw if raw > now else max(raw, min(now, round(self._wishes.highest())))
        if wanted == now or seen.now_s - self._changed_s < 60:
            return now
        self._changed_s = seen.now_s
        return now + 1 if wanted > now else now - 1


class Kthena:
    """HPA's rule on the p95 over 60 s of running requests; panic at 200 %: no way down while it lasts."""

    tick_s = 15.0

    def __init__(self, target: float) -> None:
        self._target = target
        self._totals = Series(60.0)
        self._wishes = Series(300.0)
        self._panic_until_s = float("-inf")

    def wish(self, seen: Observation) -> int:
        """The rule."""
        now = seen.provisioned
        self._totals.add(seen.now_s, float(sum(one.running + one.waiting for one in seen.replicas)))
        raw = ceil(self._totals.highest() / self._target)
        if raw >= 2 * now:
            self._panic_until_s = seen.now_s + 60.0
        self._wishes.add(seen.now_s, raw)
        if raw > now or seen.now_s < self._panic_until_s:
            return max(raw, now)
        return min(now, round(self._wishes.highest()))


class Apa:
    """AIBrix's APA on KV use over 180 s: outside ±10 % of the target, at most doubled or halved. As shipped its
    stabilisation takes the highest wish on the way up and the lowest on the way down; corrected, HPA's."""

    tick_s = 10.0

    def __init__(self, target: float, *, corrected: bool) -> None:
        self._target, self._corrected = target, corrected
        self._use = Series(180.0)
        self._wishes = Series(300.0)

    def wish(self, seen: Observation) -> int:
        """The rule."""
        now = seen.provisioned
        self._use.add(seen.now_s, sum(one.kv_use for one in seen.replicas) / max(len(seen.replicas), 1))
        ratio = self._use.mean(seen.now_s) / self._target
        raw = now
        if ratio > 1.1:
            raw = min(ceil(now * ratio), ceil(2 * now))
        elif ratio < 0.9:
            raw = max(ceil(now * ratio), now // 2)
        self._wishes.add(seen.now_s, raw)
        if self._corrected:
            return raw if raw > now else min(now, round(self._wishes.highest()))
        return round(self._wishes.highest()) if raw > now else min(now, round(self._wishes.lowest()))
