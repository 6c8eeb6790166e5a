"""One decision about the number of replicas: the policy's wish, put into the bounds that hold. Pure.

The same inputs and the same memory give the same answer, so that a ledger of inputs can be replayed (ledger.py).
"""

from dataclasses import dataclass

from modelfleet.api.reasons import ScalingReason
from modelfleet.core.scaling.policy import Bound, Memory, Sample, Terms, decide


@dataclass(frozen=True, slots=True)
class Limit:
    """A bound: the field or object that it comes from, and the number of replicas that it allows or asks for."""

    name: str
    replicas: int


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What a decision depends on besides the policy's memory.

    `current` replicas were decided before. `lows` and `highs` are the bounds; where they contradict each other, the
    least of `highs` wins. `keep` says why none may leave now, empty where they may; `spare` of `current` may leave
    nonetheless.
    """

    sample: Sample
    terms: Terms
    current: int
    lows: tuple[Limit, ...]
    highs: tuple[Limit, ...]
    keep: str = ""
    spare: int = 0

    @property
    def stay(self) -> int:
        """Below, nothing that the load says takes the number."""
        return self.current - self.spare if self.keep else 0


@dataclass(frozen=True, kw_only=True)
class Weighed:
    """`replicas` are decided; `need` is what the load alone asks for. `bound` clipped the need, None where none did.
    What was needed is held for `hold_s`."""

    replicas: int
    need: int
    reason: ScalingReason
    detail: str
    bound: str | None
    margin: float
    load_rps: float
    peak_rps: float
    hold_s: float


def weigh(inputs: Inputs, memory: Memory) -> tuple[Weighed, Memory]:
    """
    | what the policy needs, in bounds | decided |
    | --- | --- |
    | more than now | that |
    | fewer than now, and something says that none may leave | as many as now less the spare, as far as bounds allow |
    | fewer than now | that |
    """
    decision, memory = decide(inputs.sample, memory, inputs.terms)
    need = decision.replicas
    goal, bound = clipped(need, inputs.lows, inputs.highs)
    replicas = goal
    kept = goal < inputs.stay
    if kept:
        replicas, above = clipped(inputs.stay, inputs.lows, inputs.highs)
        bound = above or bound
    detail = decision.reason
    if bound is not None:
        detail += f"; {_said(bound, inputs)}"
    if kept:
        detail += f"; {inputs.keep}, so {'none that serves' if inputs.spare else 'none'} leaves"
    return Weighed(
        replicas=replicas,
        need=need,
        reason=_reason(inputs, replicas, need, backlog=decision.bound is Bound.BACKLOG),
        detail=detail,
        bound=bound,
        margin=decision.margin,
        load_rps=decision.load_rps,
        peak_rps=decision.peak_rps,
        hold_s=decision.hold_s,
    ), memory


def clipped(wish: int, lows: tuple[Limit, ...], highs: tuple[Limit, ...]) -> tuple[int, str | None]:
    """The wish inside the bounds, and the name of the one that clipped it; of equal bounds the first."""
    high = min(highs, key=lambda each: each.replicas, default=None)
    low = max(lows, key=lambda each: each.replicas, default=None)
    goal = wish
    bound = None
    if low is not None and goal < low.replicas:
        goal, bound = low.replicas, low.name
    if high is not None and goal > high.replicas:
        goal, bound = high.replicas, high.name
    return goal, bound


def _said(bound: str, inputs: Inputs) -> str:
    for each in inputs.highs:
        if each.name == bound:
            return f"{bound} allows {each.replicas}"
    low = next(each for each in inputs.lows if each.name == bound)
    return f"{bound} asks for {low.replicas}"


def _reason(inputs: Inputs, replicas: int, need: int, *, backlog: bool) -> ScalingReason:
    if replicas > inputs.current:
        if need <= inputs.current:
            return ScalingReason.OUT_OF_BOUNDS
        return ScalingReason.BACKLOG_GREW if backlog else ScalingReason.LOAD_GREW
    if replicas < inputs.current:
        outside = need >= inputs.current or replicas < inputs.stay
        return ScalingReason.OUT_OF_BOUNDS if outside else ScalingReason.LOAD_FELL
    return ScalingReason.STEADY
