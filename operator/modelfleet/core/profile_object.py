"""A ModelProfile from what was measured of one replica: what it is of, its rounded figures, what is news. Pure.

Both ways to measure write the same object: the operator from replicas that serve, `modelfleet calibrate` from one that
it drives.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from math import ceil, log10
from typing import Any, Self

from modelfleet.api import names
from modelfleet.api.acceleratorclass import AcceleratorClass
from modelfleet.api.modeldeployment import ModelDeployment
from modelfleet.api.modelprofile import ModelProfile
from modelfleet.api.parse import parse_profile
from modelfleet.core.asking import hardware
from modelfleet.core.layout.shape import Layout
from modelfleet.core.model.facts import ModelFacts, Scheme
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.profile import Profile
from modelfleet.core.perf.workload import EngineSetup, Lengths
from modelfleet.core.plan import Plan

_TIMES_NEWS, _TOKENS_NEWS, _KNEE_NEWS = 0.03, 0.01, 0.05
"""Relative changes of factors, KV tokens and knee that are news."""
_UNCERTAINTY_NEWS = 0.03
"""The same of an uncertainty, absolute."""
_MOST_TOKENS = 100_000_000
"""What the API takes."""
_SAMPLES_NEWS = 4.0
"""So many times the samples are news."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What was measured: equal subjects share a profile."""

    source: str
    class_name: str
    layout: str
    weights: str
    kv_cache: str
    engine_version: str

    @classmethod
    def of(cls, deployment: ModelDeployment, plan: Plan) -> Self | None:
        """What a plan's replicas are; None for a plan without a prediction to correct."""
        if plan.planned is None:
            return None
        return cls(
            source=deployment.spec.model.source.canonical,
            class_name=plan.class_name,
            layout=plan.layout,
            weights=plan.planned.weights,
            kv_cache=plan.planned.kv_cache,
            engine_version=str(deployment.spec.engine.version or ""),
        )

    @property
    def key(self) -> str:
        """Eight hex digits that tell it from others."""
        parts = (self.source, self.class_name, self.layout, self.weights, self.kv_cache, self.engine_version)
        return sha256("\n".join(parts).encode()).hexdigest()[:8]


@dataclass(frozen=True, kw_only=True)
class KneeFound:
    """The highest rate at which a replica kept `promise` (core.inputs.promised); `uncertainty` is the relative
    half-width of the 90 % interval, `samples` the requests behind it."""

    promise: str
    rps: float
    uncertainty: float
    samples: int


@dataclass(frozen=True, kw_only=True)
class Found:
    """All that was measured of a subject."""

    subject: Subject
    profile: Profile
    knee: KneeFound | None = None


def case_of(plan: Plan, kind: AcceleratorClass, facts: ModelFacts) -> Case | None:
    """One replica of a plan as the performance model sees it; None where nothing was predicted of it."""
    planned = plan.planned
    if planned is None or not kind.spec.is_predictable:
        return None
    weights = Scheme(planned.weights)
    if weights is not facts.native:
        facts = replace(facts, native=weights, quantized_attention=True, quantized_head=False, checkpoint_bytes=None)
    setup = EngineSetup(
        version=plan.engine_version,
        weights=weights,
        kv=Scheme(planned.kv_cache),
        token_budget=planned.token_budget,
        sequence_cap=planned.sequence_cap,
        block_tokens=planned.block_tokens or EngineSetup.block_tokens,
    )
    layout = Layout(plan.tensor, plan.pipeline, plan.data, expert=plan.expert)
    return Case(facts=facts, hardware=hardware(kind), layout=layout, setup=setup)


def lengths_of(plan: Plan) -> Lengths | None:
    """The mean request that a plan was made for."""
    hosted = plan.planned.hosted if plan.planned else None
    if hosted is None or not (hosted.input_tokens and hosted.output_tokens):
        return None
    return Lengths(
        input_tokens=hosted.input_tokens,
        output_tokens=hosted.output_tokens,
        shared_prefix_tokens=hosted.shared_prefix_tokens,
    )


def spec_of(found: Found, by: str, note: str) -> dict[str, Any]:
    """The object's spec, rounded."""
    subject, profile, knee = found.subject, found.profile, found.knee
    ttft, tpot = profile.uncertainty
    spec: dict[str, Any] = {
        "source": subject.source,
        "class": subject.class_name,
        "layout": subject.layout,
        "quantization": {"weights": subject.weights, "kvCache": subject.kv_cache},
        **({"engineVersion": subject.engine_version} if subject.engine_version else {}),
        "stepTime": {
            "prefill": _factor(profile.prefill),
            "prefillSamples": about(profile.prefill_samples),
            "decode": _factor(profile.decode),
            "decodeSamples": about(profile.decode_samples),
            "overhead": _factor(profile.overhead),
            "ttftUncertainty": percent(ttft),
            "tpotUncertainty": percent(tpot),
        },
        **({"kvCacheTokens": min(profile.kv_tokens, _MOST_TOKENS)} if profile.kv_tokens else {}),
    }
    if knee is not None:
        spec["knee"] = {
            "promise": knee.promise,
            "requestsPerSecond": rate(knee.rps),
            "uncertainty": percent(knee.uncertainty),
            "samples": about(knee.samples),
        }
    return {**spec, "provenance": {"by": by, "note": note}}


def manifest(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    """The ModelProfile."""
    head = {"apiVersion": names.API_VERSION, "kind": names.PROFILE_KIND}
    return {**head, "metadata": dict(metadata), "spec": dict(spec)}


def is_news(stored: Any, wanted: Mapping[str, Any]) -> bool:
    """Whether a profile says something else than the raw one that is stored: noise and a few samples more are not."""
    before, after = _parsed(stored), _parsed({**wanted})
    if before is None or after is None:
        return True
    old, new = before.spec, after.spec
    identity = ("source", "class_", "layout", "quantization", "engine_version")
    if any(getattr(old, name) != getattr(new, name) for name in identity):
        return True
    steps = [(getattr(old.step_time, name), getattr(new.step_time, name)) for name in ("prefill", "decode", "overhead")]
    widths = [
        (old.step_time.ttft_uncertainty, new.step_time.ttft_uncertainty),
        (old.step_time.tpot_uncertainty, new.step_time.tpot_uncertainty),
    ]
    samples = [
        (old.step_time.prefill_samples, new.step_time.prefill_samples),
        (old.step_time.decode_samples, new.step_time.decode_samples),
    ]
    return (
        any(_moved(a.number, b.number, _TIMES_NEWS) for a, b in steps)
        or any(abs(float(a.fraction - b.fraction)) >= _UNCERTAINTY_NEWS for a, b in widths)
        or any(b >= _SAMPLES_NEWS * max(a, 1) for a, b in samples)
        or _moved(old.kv_cache_tokens or 0, new.kv_cache_tokens or 0, _TOKENS_NEWS)
        or _knee_is_news(old, new)
    )


def _knee_is_news(old: Any, new: Any) -> bool:
    """One that is not known any more (another operator has not learned it yet) is no news."""
    if new.knee is None or old.knee is None:
        return new.knee is not None
    return (
        old.knee.promise != new.knee.promise
        or _moved(float(old.knee.requests_per_second.per_second), float(new.knee.requests_per_second.per_second),
                  _KNEE_NEWS)
        or abs(float(old.knee.uncertainty.fraction - new.knee.uncertainty.fraction)) >= _UNCERTAINTY_NEWS
    )  # fmt: skip


def _parsed(value: Any) -> ModelProfile | None:
    parsed = parse_profile(value) if isinstance(value, Mapping) else None
    return parsed if isinstance(parsed, ModelProfile) else None


def _moved(before: float, after: float, by: float) -> bool:
    return abs(after - before) > by * max(abs(before), 1e-9)


def about(count: int) -> int:
    """The 1, 2 or 5 of its power of ten: a count that grows is written a few times in its life."""
    if count <= 0:
        return 0
    unit: int = 10 ** int(log10(count))
    return min(next(unit * each for each in (5, 2, 1) if count >= unit * each), 2**31 - 1)


def percent(part: float) -> str:
    """A relative half-width as a share, in whole percent."""
    return f"{min(max(ceil(part * 100 - 1e-9), 1), 99)}%"


def rate(rps: float) -> str:
    """Three digits that mean something, as a Rate is written."""
    return f"{max(float(f'{rps:.3g}'), 0.001):.3f}".rstrip("0").rstrip(".")


def _factor(value: float) -> str:
    return f"{min(max(float(f'{value:.3g}'), 0.01), 99.0):.4f}".rstrip("0").rstrip(".")
