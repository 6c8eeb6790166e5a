"""The goodput of a plan against the load that arrives, as coordinates of a plot. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import floor, log10

from modelfleet.core.layout.answer import Pool
from modelfleet.core.layout.demand import Demand, Wanted
from modelfleet.core.layout.wording import exact_seconds, rounded, share
from modelfleet.core.perf.case import Case, Limits
from modelfleet.core.perf.prediction import Prediction
from modelfleet.core.perf.profile import Profile
from modelfleet.core.perf.serving import predict
from modelfleet.core.perf.workload import Lengths, Load

_STEPS = 72
_SCALES = (1.3, 1.6, 2.0, 2.5, 3.2, 4.0, 5.0, 6.5, 8.0)
_ENDS_EARLY = (
    " The plan ends before the line falls: a step with the whole token budget has to stay inside TPOT, and a prompt of"
    " the 95th percentile inside TTFT."
)
_BOUNDS = {"ttft": "TTFT", "tpot": "TPOT", "kv": "KV room", "throughput": "throughput"}


@dataclass(frozen=True)
class Tick:
    """A value on an axis and where it stands, in percent of the axis."""

    percent: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Lines as SVG points in a square of 100 × 100 with y downwards, and the texts that belong to them."""

    ideal: str
    likely: str
    sure: str
    band: str
    """Between `likely` and `sure`."""
    fill: str
    """Below `sure`."""
    knee: float
    target: float
    xs: tuple[Tick, ...]
    ys: tuple[Tick, ...]
    widest: str
    knee_text: str
    target_text: str
    caption: str
    spoken: str


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is drawn: one replica, the requests, and the limits of the objective that binds. `tight` are those limits
    at the pessimistic end of the prediction, for which the plan is sized."""

    case: Case
    lengths: Lengths
    limits: Limits
    tight: Limits
    stated_ttft_s: float
    """As the objective says it; `limits` may have it moved."""
    profile: Profile | None = None


def subject_of(case: Case, demand: Demand, binding: Wanted, profile: Profile | None) -> Subject:
    """The subject of a plan. A request of the binding objective waits as one of all does, and is prefilled as itself:
    its limit for the first token of all is moved by what the two differ when alone."""
    light = predict(case, demand.lengths, Load(concurrency=1), profile)
    own = predict(case, binding.lengths, Load(concurrency=1), profile)
    moved, limits = light.ttft_s - own.ttft_s, binding.limits
    return Subject(
        case=case,
        lengths=demand.lengths,
        limits=replace(limits, ttft_s=limits.ttft_s + moved),
        tight=replace(
            limits,
            ttft_s=limits.ttft_s / (1 + light.ttft_uncertainty) + moved,
            tpot_s=limits.tpot_s / (1 + light.uncertainty),
        ),
        stated_ttft_s=limits.ttft_s,
        profile=profile,
    )


@dataclass(frozen=True)
class _Point:
    load: float
    likely: float
    sure: float


def curve(pool: Pool, subject: Subject) -> Curve:
    """The curve of the pool's replicas together."""
    predicted, limits = pool.predicted, subject.limits
    knee, target = predicted.knee_rps * pool.replicas, predicted.requests_per_s * pool.replicas
    most = _scale(subject, max(knee, target), pool)
    points = [_Point(0.0, 0.0, 0.0), *(_point(subject, most * step / _STEPS, pool) for step in range(1, _STEPS + 1))]
    likely = [(point.load / most * 100, 100 - point.likely / most * 100) for point in points]
    sure = [(point.load / most * 100, 100 - point.sure / most * 100) for point in points]
    ticks = _ticks(most)
    bound = _BOUNDS.get(predicted.knee_bound, predicted.knee_bound)
    knee_text = f"the plan holds up to {rounded(knee, 3)} a second; {bound} ends it"
    target_text = f"the load to serve, {rounded(target, 3)} a second"
    return Curve(
        ideal="0,100 100,0",
        likely=_joined(likely),
        sure=_joined(sure),
        band=_joined([*likely, *reversed(sure)]),
        fill=_joined([*sure, (100.0, 100.0)]),
        knee=round(knee / most * 100, 2),
        target=round(target / most * 100, 2),
        xs=ticks,
        ys=ticks,
        widest=max((tick.text for tick in ticks), key=len),
        knee_text=knee_text,
        target_text=target_text,
        caption=f"Requests a second that finish inside TTFT {exact_seconds(subject.stated_ttft_s)} and TPOT"
        f" {exact_seconds(limits.tpot_s)}, of all replicas. The promise wants {share(limits.share)} inside."
        + (_ENDS_EARLY if most > _SCALES[0] * max(knee, target) else ""),
        spoken=f"Goodput against load: {target_text}; {knee_text}",
    )


def _scale(subject: Subject, least: float, pool: Pool) -> float:
    """The load at the right end: the first beyond which few requests are inside the promise, so that the break is seen
    also where something else ends the plan before (a long prompt's own time, say)."""
    for factor in _SCALES:
        at = _point(subject, factor * least, pool)
        if at.sure < 0.5 * subject.limits.share * at.load:
            return factor * least
    return _SCALES[-1] * least


def _point(subject: Subject, load: float, pool: Pool) -> _Point:
    at = predict(subject.case, subject.lengths, Load(requests_per_s=load / pool.replicas), subject.profile)
    return _Point(load, load * kept_share(at, subject.limits), load * kept_share(at, subject.tight))


def kept_share(at: Prediction, limits: Limits) -> float:
    """The share of requests inside both limits. Past what a replica can take the queue grows, so none stays inside."""
    if not at.fits or at.saturated or at.spread is None:
        return 0.0
    return at.spread.share(limits.ttft_s, limits.tpot_s)


def _joined(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.2f},{y:.2f}" for x, y in points)


def _ticks(most: float) -> tuple[Tick, ...]:
    """Round values from 0 to `most`, four to eight of them."""
    raw = most / 5
    power = 10 ** floor(log10(raw))
    step = power * next(factor for factor in (1, 2, 2.5, 5, 10) if raw <= factor * power)
    values: Sequence[float] = [step * index for index in range(int(most / step) + 1)]
    return tuple(Tick(round(value / most * 100, 2), f"{value:,.6g}") for value in values)
