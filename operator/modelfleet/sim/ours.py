"""The operator's own policy inside the simulator: core.scaling, unchanged."""

from modelfleet.core.scaling.policy import Decision, Memory, Sample, Terms, decide
from modelfleet.sim.fleet import Observation
from modelfleet.sim.requests import End


class Ours:
    """Keeps what core.scaling remembers between ticks, and the last decision."""

    tick_s = 5.0

    def __init__(self, terms: Terms, ttft_s: float, tpot_s: float) -> None:
        self._terms, self._ttft_s, self._tpot_s = terms, ttft_s, tpot_s
        self._memory = Memory()
        self.last: Decision | None = None

    def wish(self, seen: Observation) -> int:
        """The decision on what is seen."""
        finished = [one for one in seen.ended if one.end is End.FINISHED]
        sample = Sample(
            now_s=seen.now_s,
            arrivals=seen.arrivals,
            input_tokens=seen.arrived_input_tokens,
            ended=len(seen.ended),
            good=sum(one.inside(self._ttft_s, self._tpot_s) for one in finished),
            finished=len(finished),
            output_tokens=sum(one.request.output_tokens for one in finished),
            serving=len(seen.replicas),
            pending_s=seen.pending_s,
            waiting=sum(one.waiting for one in seen.replicas),
        )
        self.last, self._memory = decide(sample, self._memory, self._terms)
        return self.last.replicas
