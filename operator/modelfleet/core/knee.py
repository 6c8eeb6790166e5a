"""What a knee that requests taught is of, so that it is not taken for that of something else. Pure."""

from collections.abc import Iterable

from modelfleet.api.modeldeployment import ModelDeployment
from modelfleet.core.inputs import promised
from modelfleet.core.plan import Plan
from modelfleet.core.profile_object import Subject

_AMONG_OTHERS = ".among-others"


def knee_of(deployment: ModelDeployment, plan: Plan, serving: Iterable[Plan | None]) -> str:
    """Names the subject of a ModelProfile, the promise and the told knee that a correction is in units of, and whether
    all plans of the replicas that serve are of it; None is one that is not known. Empty for a plan without a knee."""
    subject = Subject.of(deployment, plan)
    if subject is None or not plan.knee_rps:
        return ""
    own = _served(plan)
    among_others = any(each is None or _served(each) != own for each in serving)
    return f"{subject.key}.{promised(deployment)}.{plan.knee_rps:.4g}{_AMONG_OTHERS if among_others else ''}"


def is_of_one(name: str) -> bool:
    """Whether requests that others answered had no part in it."""
    return bool(name) and not name.endswith(_AMONG_OTHERS)


def _served(plan: Plan) -> tuple[object, ...]:
    """What of a plan a knee depends on, as far as profiles and predictions tell it apart."""
    planned, weights = plan.planned, plan.weights
    return (
        (plan.class_name, plan.layout, plan.engine_version),
        (plan.claim, plan.path, weights.source if weights else "", weights.revision if weights else ""),
        (planned.weights, planned.kv_cache, planned.hosted.knee_rps) if planned else None,
    )
