"""The operator's own policy inside the simulator: `weigh`, asked as core/scaling/scaled.py asks it, and told no more.

What a simulated fleet does not have is left out: workers that say nothing, faults, several objectives, other models. A
test plays the same stories to core/scaling/scaled.py and wants the same numbers.
"""

from dataclasses import replace

from modelfleet.core.scaling.memory import LEARN_S, with_starts
from modelfleet.core.scaling.observed import Tally
from modelfleet.core.scaling.policy import Memory, Sample, Terms
from modelfleet.core.scaling.staying import spare_while_moving, stays
from modelfleet.core.scaling.terms import MOST_REPLICAS, cold_start_s
from modelfleet.core.scaling.weighing import Inputs, Limit, Weighed, clipped, weigh
from modelfleet.sim.fleet import Observation
from modelfleet.sim.requests import End

_MEAN_OVER = 500
"""Finished requests that the mean prompt is of, as the operator takes it."""


class Ours:
    """Keeps what the operator remembers between ticks, and the last decision. The bounds are those of `terms`; the cold
    start is the operator's guess until starts were seen."""

    tick_s = 5.0

    def __init__(self, terms: Terms, ttft_s: float, tpot_s: float) -> None:
        self._terms, self._ttft_s, self._tpot_s = terms, ttft_s, tpot_s
        self._lows = (Limit("minReplicas", terms.min_replicas),)
        self._highs = (Limit("maxReplicas", terms.max_replicas),)
        self._memory = Memory()
        self._tally = Tally()
        self._current: int | None = None
        self._begun = 0
        self._input_mean = 0.0
        self._waiting = 0
        self._starts_s: tuple[float, ...] = ()
        self.last: Weighed | None = None

    def wish(self, seen: Observation) -> int:
        """The decision on what is seen; where no replica serves nobody says anything, and the number stays."""
        if self._current is None:
            self._current, _ = clipped(seen.provisioned, self._lows, self._highs)
            self._begun = self._current
        self._tally += self._counted(seen)
        self._starts_s = with_starts(self._starts_s, seen.starts_s)
        if not seen.replicas:
            return self._current
        waiting = sum(one.waiting for one in seen.replicas)
        keep, spare = self._keep(seen, waiting, self._current)
        inputs = Inputs(
            sample=self._sample(seen, waiting),
            terms=replace(
                self._terms, min_replicas=1, max_replicas=MOST_REPLICAS, cold_start_s=cold_start_s(self._starts_s)
            ),
            current=self._current,
            lows=self._lows,
            highs=self._highs,
            keep=keep,
            spare=spare,
        )
        self.last, self._memory = weigh(inputs, self._memory)
        self._tally, self._waiting, self._current = Tally(), waiting, self.last.replicas
        return self._current

    def _counted(self, seen: Observation) -> Tally:
        """What workers count: nothing of requests that found no replica."""
        ended = [one for one in seen.ended if one.replica >= 0]
        finished = [one for one in ended if one.end is End.FINISHED]
        return Tally(
            arrivals=seen.arrivals - (len(seen.ended) - len(ended)),
            ended=len(ended),
            good=sum(one.inside(self._ttft_s, self._tpot_s) for one in finished),
            finished=len(finished),
            input_tokens=sum(one.request.input_tokens for one in finished),
            output_tokens=sum(one.request.output_tokens for one in finished),
        )

    def _sample(self, seen: Observation, waiting: int) -> Sample:
        """Prompts of requests that arrived are not known before they end: they are taken to be as long as the last."""
        tally, arrivals = self._tally, round(self._tally.arrivals)
        if tally.finished and tally.input_tokens:
            mean = tally.input_tokens / tally.finished
            weight = min(1.0, tally.finished / _MEAN_OVER) if self._input_mean else 1.0
            self._input_mean += weight * (mean - self._input_mean)
        return Sample(
            now_s=seen.now_s,
            arrivals=arrivals,
            input_tokens=round(arrivals * (self._input_mean or self._terms.mean_input_tokens)),
            ended=tally.ended,
            good=tally.good,
            finished=tally.finished,
            output_tokens=round(tally.output_tokens),
            serving=len(seen.replicas),
            pending_s=seen.pending_s,
            waiting=waiting,
        )

    def _keep(self, seen: Observation, waiting: int, current: int) -> tuple[str, int]:
        """Why no replica may leave now; empty where one may. And how many may nonetheless."""
        serving, learns = len(seen.replicas), seen.now_s < LEARN_S
        ages_s = () if seen.draining else seen.ages_s
        least, start_s = self._begun if learns else 0, cold_start_s(self._starts_s)
        return stays(
            waiting=waiting,
            before=self._waiting,
            serving=serving,
            moving=bool(seen.pending_s or seen.draining),
            learns=learns,
            spare=spare_while_moving(current, serving, least, ages_s, start_s),
        )
