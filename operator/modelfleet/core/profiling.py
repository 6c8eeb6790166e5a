"""What replicas that serve teach of their model: corrections of what was predicted, and the ModelProfile of them. Pure.

The profile is read by later plans alone: no plan that is pinned looks at it (docs/profiles.md).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, sqrt
from statistics import median
from typing import Any

from modelfleet.api import names
from modelfleet.core import raw
from modelfleet.core.active import Scaling
from modelfleet.core.effects import Note
from modelfleet.core.groups import Replica
from modelfleet.core.inputs import promised
from modelfleet.core.knee import is_of_one
from modelfleet.core.perf.cells import common, fit
from modelfleet.core.perf.workload import Lengths
from modelfleet.core.profile_object import (
    Found,
    KneeFound,
    Subject,
    about,
    case_of,
    is_news,
    lengths_of,
    manifest,
    percent,
    spec_of,
)
from modelfleet.core.render.metadata import metadata
from modelfleet.core.scaling.samples import PodSamples, Samples
from modelfleet.core.situation import Situation
from modelfleet.core.snapshot import Raw

LEAST_STEPS = 500.0
"""A composition with fewer steps of one engine says nothing: first steps take long, because kernels are made ready."""
LEAST_SURE = 100.0
"""Inverse variance of the knee's logarithm, from which on it is written: ± 16 % (90 %); the policy begins with 25."""
BY = "the operator"
TOLD = ("kneeRequestsPerSecond", "kneeUncertainty", "stepTime", "stepTimeUncertainty", "steps", "profile")
"""Of status.plan.pools.observed, what `Learning.told` says."""
_Z90 = 1.645


@dataclass(frozen=True, kw_only=True)
class Learned:
    """What was found, and of how many replicas."""

    found: Found
    replicas: int


def has_steps(samples: Samples | None) -> bool:
    """Whether a worker told of its engine's steps: before that there is nothing to write."""
    return samples is not None and any(pod.steps for pod in samples.pods.values())


class Learning:
    """What one moment teaches; worked out only where somebody asks, because most moments tell and write nothing."""

    def __init__(self, situation: Situation) -> None:
        self._situation = situation

    @cached_property
    def learned(self) -> Learned | None:
        """From the replicas of the wanted revision that serve and are not slower than others; None where too little is
        known."""
        s = self._situation
        intent, revision, samples = s.intent, s.revision, s.world.samples
        if samples is None or revision is None or intent.wish is None or intent.facts is None:
            return None
        deployment, plan = intent.wish.deployment, intent.wish.plan
        subject, kind, lengths = Subject.of(deployment, plan), intent.classes.get(plan.class_name), lengths_of(plan)
        case = case_of(plan, kind, intent.facts) if kind is not None else None
        if subject is None or case is None or lengths is None:
            return None
        healthy = _healthy(samples, s.fleet, s.scaling, revision.name)
        profile = fit(case, _seen_lengths(lengths, s.scaling), common([pod.steps for pod in healthy], LEAST_STEPS))
        if profile is None:
            return None
        tokens = [pod.last.kv_total_tokens for pod in healthy if pod.last and pod.last.kv_total_tokens]
        profile = replace(profile, kv_tokens=int(median(tokens)) if tokens else None)
        found = Found(subject=subject, profile=profile, knee=knee_of(s.scaling, promised(deployment)))
        return Learned(found=found, replicas=len(healthy))

    def told(self) -> dict[str, Any]:
        """The correction and its confidence, as the status has them."""
        s, told = self._situation, dict[str, Any]()
        knee, learned = knee_of(s.scaling, ""), self.learned
        if knee is not None:
            told["kneeRequestsPerSecond"] = f"{float(f'{knee.rps:.2g}'):g}"
            told["kneeUncertainty"] = _percent(knee.uncertainty)
        if learned is not None:
            profile = learned.found.profile
            told |= {
                "stepTime": f"{profile.decode:.2g}",
                "stepTimeUncertainty": _percent(profile.uncertainty[1]),
                "steps": about(profile.decode_samples),
                "profile": names.observed_profile(s.children.owner.name, learned.found.subject.key),
            }
        return told

    def note(self) -> Iterator[Note]:
        """The write of the profile, where it was looked at and says something else."""
        s = self._situation
        learned, profiles = (self.learned, s.world.profiles) if s.world.profiles is not None else (None, None)
        if learned is None or profiles is None:
            return
        owner = s.children.owner
        name = names.observed_profile(owner.name, learned.found.subject.key)
        stored = next((item for item in profiles if raw.name(item) == name), None)
        if stored is not None and raw.text(raw.controller(stored), "uid") != owner.uid:
            return
        who = "one replica" if learned.replicas == 1 else "replicas"
        spec = _with_knee(spec_of(learned.found, BY, f"from {who} of {owner.name} that served"), stored)
        made = manifest(metadata(owner, name), spec)
        if stored is None or is_news(stored, made):
            yield Note(made, raw.uid(stored))


def knee_of(scaling: Scaling | None, promise: str, least_sure: float = LEAST_SURE) -> KneeFound | None:
    """The knee that requests taught of the plan; None while that is not much more than what was told, or what serves is
    not all of this plan."""
    if scaling is None or scaling.case.plan.planned is None:
        return None
    memory, told_rps = scaling.kept.ledger.memory, scaling.case.plan.planned.hosted.knee_rps
    of_this = is_of_one(memory.knee_of) and memory.knee_of == scaling.case.knee_of
    if memory.knee_sure < least_sure or not told_rps or not of_this:
        return None
    return KneeFound(
        promise=promise,
        rps=told_rps * exp(memory.log_knee),
        uncertainty=_Z90 / sqrt(memory.knee_sure),
        samples=scaling.kept.evidence if memory.knee_ended is None else memory.knee_ended,
    )


def _with_knee(spec: dict[str, Any], stored: Raw | None) -> dict[str, Any]:
    """With the knee that is written, where this process knows none yet."""
    knee = raw.mapping(stored, "spec", "knee")
    return {**spec, "knee": dict(knee)} if knee and "knee" not in spec else spec


def _healthy(
    samples: Samples, fleet: tuple[Replica, ...], scaling: Scaling | None, revision: str
) -> tuple[PodSamples, ...]:
    slow = scaling.kept.slow.about if scaling and scaling.kept.slow else ""
    leaders = [one.leader.uid for one in fleet if one.leader and one.ready and one.serving and one.pool == revision]
    pods = (samples.pods.get(uid) for uid in leaders if uid != slow)
    return tuple(pod for pod in pods if pod is not None and pod.failure is None and pod.fresh(samples.at_s))


def _percent(part: float) -> str:
    return percent(part).removesuffix("%")


def _seen_lengths(planned: Lengths, scaling: Scaling | None) -> Lengths:
    """The mean request as it was seen, where it was."""
    if scaling is None:
        return planned
    kept = scaling.kept
    return replace(
        planned,
        input_tokens=max(1.0, kept.input_mean or planned.input_tokens),
        output_tokens=max(1.0, kept.ledger.memory.output_mean or planned.output_tokens),
    )
