"""Rules made for model serving: llm-d's WVA in both versions and its SLO ratio, NVIDIA Dynamo's planner."""

from dataclasses import dataclass
from math import ceil

from modelfleet.sim.fleet import Observation
from modelfleet.sim.peers.series import Series


@dataclass(frozen=True, kw_only=True)
class Known:
    """What these rules are told of an engine and a promise: limits in seconds, mean lengths in tokens, the KV cache,
    the sequence cap and token budget, a replica's prompt tokens a second, and batch and step time at the TPOT limit."""

    ttft_s: float
    tpot_s: float
    input_tokens: float
    output_tokens: float
    kv_tokens: int
    sequence_cap: int
    token_budget: int
    prompt_tokens_per_s: float
    decode_batch: float
    decode_step_s: float


class WvaOne:
    """Saturation: a replica is saturated at 80 % KV or 5 waiting; +1 when the mean spare of the others is small, -1
    when n - 1 would keep it; none while pods are pending."""

    tick_s = 30.0

    def __init__(self, scale: float = 1.0) -> None:
        self._kv, self._queue = min(0.95, 0.80 * scale), 5.0 * scale
        self._most: dict[int, Series] = {}
        self._waits: dict[int, Series] = {}
        self._wishes = Series(240.0)

    def wish(self, seen: Observation) -> int:
        """The rule, then HPA's stabilisation of 240 s."""
        now = seen.provisioned
        raw = now if seen.pending_s else now + self._change(seen)
        self._wishes.add(seen.now_s, raw)
        return raw if raw > now else min(now, round(self._wishes.highest()))

    def _change(self, seen: Observation) -> int:
        use, waits = [], []
        for one in seen.replicas:
            kv = self._most.setdefault(one.number, Series(60.0))
            wait = self._waits.setdefault(one.number, Series(60.0))
            kv.add(seen.now_s, one.kv_use)
            wait.add(seen.now_s, float(one.waiting))
            use.append(kv.highest())
            waits.append(wait.highest())
        free = [(k, q) for k, q in zip(use, waits, strict=True) if k < self._kv and q < self._queue]
        if not free:
            return 1
        spare_kv = sum(self._kv - k for k, _ in free) / len(free)
        spare_queue = sum(self._queue - q for _, q in free) / len(free)
        if spare_kv < 0.1 or spare_queue < 3:
            return 1
        count = len(seen.replicas)
        if count < 2:
            return 0
        kv_after = self._kv - sum(use) / (count - 1)
        queue_after = self._queue - sum(waits) / (count - 1)
        return -1 if kv_after >= 0.1 and queue_after >= 3 else 0


class WvaTwo:
    """Tokens in use and queued against the tokens that replicas hold."""

    tick_s = 30.0

    def __init__(self, known: Known, scale: float = 1.0) -> None:
        self._known, self._scale = known, scale
        self._wishes = Series(240.0)
        self._seen_tokens: float | None = None

    def wish(self, seen: Observation) -> int:
        """The rule, then HPA's stabilisation of 240 s."""
        known, now = self._known, seen.provisioned
        mean = known.input_tokens + known.output_tokens / 2
        number = min(known.token_budget * known.output_tokens / (known.input_tokens + known.output_tokens),
                     known.sequence_cap)  # fmt: skip
        saturated = [one.kv_use * known.kv_tokens for one in seen.replicas if one.waiting >= 5]
        if saturated:
            self._seen_tokens = sum(saturated) / len(saturated)
        capacity = min(known.kv_tokens * 0.80, self._seen_tokens or number * mean) * self._scale
        use = sum(one.kv_use * known.kv_tokens + one.waiting * mean for one in seen.replicas)
        up = use / 0.85 - now * capacity
        down = now * capacity - use / 0.70
        raw = now
        if up > 0:
            raw = now + ceil(up / capacity)
        elif down > 0:
            raw = now - int(down / capacity)
        self._wishes.add(seen.now_s, raw)
        return min(raw, now + 10) if raw > now else min(now, round(self._wishes.highest()))


class SloRatio:
    """p90 TTFT and TPOT over their limits, smoothed, times ready / provisioned; up above 0.55, down below 0.40."""

    tick_s = 15.0

    def __init__(self, known: Known, scale: float = 1.0) -> None:
        self._known, self._scale = known, scale
        self._smooth = Series(45.0)
        self._up_s = self._down_s = float("-inf")

    def wish(self, seen: Observation) -> int:
        """The rule."""
        now = seen.provisioned
        done = [one for one in seen.ended if one.ttft_s > 0]
        if done:
            ttft, tpot = _p90([one.ttft_s for one in done]), _p90([one.tpot_s for one in done])
            self._smooth.add(seen.now_s, min(2.0, max(ttft / self._known.ttft_s, tpot / self._known.tpot_s)))
        ratio = self._smooth.mean(seen.now_s) * len(seen.replicas) / max(now, 1)
        if ratio > 0.55 * self._scale and seen.now_s - self._up_s >= 60:
            self._up_s = seen.now_s
            return min(max(now + 1, ceil(now * ratio / (0.55 * self._scale))), now + max(now, 4))
        if ratio < 0.40 * self._scale and seen.now_s - self._down_s >= 120:
            self._down_s = seen.now_s
            return now - 1
        return now


class Dynamo:
    """A slow forecast of rate and lengths sets a floor; a fast loop adds one when all engines exceed the limits, and
    takes one away when the survivors would keep 80 % of them. Aggregated engines: a replica does both phases."""

    tick_s = 5.0
    _SLOW_S = 180.0

    def __init__(self, known: Known, scale: float = 1.0) -> None:
        self._known, self._scale = known, scale
        self._arrivals, self._inputs = Series(self._SLOW_S), Series(self._SLOW_S)
        self._slow_s = float("-inf")
        self._floor = 1

    def wish(self, seen: Observation) -> int:
        """The rule."""
        self._arrivals.add(seen.now_s, seen.arrivals / self.tick_s)
        self._inputs.add(seen.now_s, seen.arrived_input_tokens / self.tick_s)
        if seen.now_s - self._slow_s >= self._SLOW_S:
            self._slow_s = seen.now_s
            self._floor = self._needed(seen.now_s)
        now = seen.provisioned
        wanted = max(now, self._floor)
        if seen.pending_s or wanted > now or not seen.replicas:
            return wanted
        if all(self._ttft_s(one.queued_tokens) > self._known.ttft_s or self._itl_s(one.running) > self._known.tpot_s
               for one in seen.replicas):  # fmt: skip
            return now + 1
        return max(now - 1, self._floor) if now > 1 and self._survive(seen) else now

    def _needed(self, now_s: float) -> int:
        known = self._known
        prompts = self._inputs.mean(now_s) / (known.prompt_tokens_per_s * self._scale)
        rate = known.decode_batch / (known.output_tokens * known.decode_step_s) * self._scale
        return max(1, ceil(prompts + self._arrivals.mean(now_s) / rate))

    def _survive(self, seen: Observation) -> bool:
        known, now = self._known, len(seen.replicas)
        if now < 2:
            return False
        grown = now / (now - 1)
        own_s = known.input_tokens / known.prompt_tokens_per_s
        return all(
            self._ttft_s(one.queued_tokens) * grown < (known.ttft_s - own_s) * 0.8
            and self._itl_s(one.running * grown) < known.tpot_s * 0.8
            and one.kv_use * grown < 1
            for one in seen.replicas
        )

    def _ttft_s(self, queued_tokens: float) -> float:
        return queued_tokens / self._known.prompt_tokens_per_s

    def _itl_s(self, running: float) -> float:
        """Between an empty and a full batch the step time is taken to be a line."""
        known = self._known
        return known.decode_step_s * (0.4 + 0.6 * running / known.decode_batch)


def _p90(values: list[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(0.9 * len(values)))]
