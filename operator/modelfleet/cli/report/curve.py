"""The goodput of a plan against the load that arrives, as coordinates of a plot. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import floor, isfinite, log, log10, sqrt
from statistics import NormalDist

from modelfleet.core.layout.answer import Pool
from modelfleet.core.layout.demand import Demand
from modelfleet.core.layout.wording import rounded, share
from modelfleet.core.perf.case import Case, Limits
from modelfleet.core.perf.prediction import Prediction
from modelfleet.core.perf.serving import predict
from modelfleet.core.perf.workload import Load

_STEPS = 72
_NORMAL = NormalDist()
_Z95 = _NORMAL.inv_cdf(0.95)
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


@dataclass(frozen=True)
class _Point:
    load: float
    likely: float
    sure: float


def curve(pool: Pool, case: Case, demand: Demand, limits: Limits) -> Curve:
    """The curve of the pool's replicas together. `limits` are those of the objective that binds."""
    predicted = pool.predicted
    knee, target = predicted.knee_rps * pool.replicas, predicted.requests_per_s * pool.replicas
    most = 1.3 * max(knee, target)
    margin = 1 + predicted.uncertainty
    tight = Limits(ttft_s=limits.ttft_s / margin, tpot_s=limits.tpot_s / margin, share=limits.share)
    points = [_Point(0.0, 0.0, 0.0)]
    for step in range(1, _STEPS + 1):
        load = most * step / _STEPS
        at = predict(case, demand.lengths, Load(requests_per_s=load / pool.replicas))
        points.append(_Point(load, load * kept_share(at, limits), load * kept_share(at, tight)))
    likely = [(point.load / most * 100, 100 - point.likely / most * 100) for point in points]
    sure = [(point.load / most * 100, 100 - point.sure / most * 100) for point in points]
    ticks = _ticks(most)
    bound = _BOUNDS.get(predicted.knee_bound, predicted.knee_bound)
    knee_text = f"the promise holds up to {rounded(knee, 3)} a second; {bound} breaks first"
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
        caption=f"Requests a second that finish inside TTFT {rounded(limits.ttft_s * 1000, 4)} ms and TPOT"
        f" {rounded(limits.tpot_s * 1000, 4)} ms, of all replicas. The promise wants {share(limits.share)} inside.",
        spoken=f"Goodput against load: {target_text}; {knee_text}",
    )


def kept_share(at: Prediction, limits: Limits) -> float:
    """The share of requests inside both limits, taken as independent: each time is log-normal with its mean and p95."""
    if not at.fits:
        return 0.0
    return _below(limits.ttft_s, at.ttft_s, at.ttft_p95_s) * _below(limits.tpot_s, at.tpot_s, at.tpot_p95_s)


def _below(limit: float, mean: float, p95: float) -> float:
    if not (isfinite(mean) and isfinite(p95)) or mean <= 0:
        return 0.0
    if p95 <= mean:
        return 1.0 if mean <= limit else 0.0
    root = _Z95 * _Z95 - 2 * log(p95 / mean)
    sigma = _Z95 - sqrt(root) if root > 0 else _Z95
    return _NORMAL.cdf((log(limit / p95)) / sigma + _Z95)


def _joined(points: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.2f},{y:.2f}" for x, y in points)


def _ticks(most: float) -> tuple[Tick, ...]:
    """Round values from 0 to `most`, four to eight of them."""
    raw = most / 5
    power = 10 ** floor(log10(raw))
    step = power * next(factor for factor in (1, 2, 2.5, 5, 10) if raw <= factor * power)
    values: Sequence[float] = [step * index for index in range(int(most / step) + 1)]
    return tuple(Tick(round(value / most * 100, 2), f"{value:,.6g}") for value in values)
