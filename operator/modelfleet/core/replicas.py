"""How many replicas there should be without a look at the load, and why; and how a decision on the load is told. Pure.

Mode Manual takes `spec.scaling.replicas` inside the bounds. Else what the plan needs for the declared load is run, and
minReplicas where nothing was predicted: without a knee a measured load says nothing, and more would be a guess.
What is sampled decides in mode Active (active.py, scaling/scaled.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from modelfleet.api.modeldeployment import Scaling, ScalingMode
from modelfleet.api.reasons import ScalingReason
from modelfleet.core import raw
from modelfleet.core.mix import Mix
from modelfleet.core.plan import Plan
from modelfleet.core.scaling.memory import Change


@dataclass(frozen=True)
class ReplicasDecision:
    """The wanted number. `bound` is the field that clipped the wish or stands in for one; `ignored` says which wish was
    not followed, empty if there is none. `source` says what wants the number and what it does, as in "the measured load
    gets", where somebody looks at more than the declared load; else it is empty."""

    replicas: int
    reason: ScalingReason
    detail: str
    bound: str | None = None
    ignored: str = ""
    source: str = ""


def decide_replicas(
    scaling: Scaling, metadata: Mapping[str, Any], plan: Plan | None = None, mix: Mix | None = None
) -> ReplicasDecision:
    """The number of replicas; `metadata` is the raw object's, whose managed fields name a foreign scaler. `mix` is what
    stands for the plan, where some of it is of later classes."""
    if mix is None and plan is not None:
        mix = Mix(first=plan)
    if scaling.mode is ScalingMode.MANUAL:
        held, bound = _held(scaling, scaling.replicas, mix)
        said = f"replicas is {scaling.replicas}" + (f" and {_bound_words(scaling, bound, held)}" if bound else "")
        source = f"a HorizontalPodAutoscaler {'gets' if bound else 'asks for'}" if _HPA in scalers(metadata) else ""
        return ReplicasDecision(held, ScalingReason.MANUAL, said, bound, source=source)
    if plan is not None and plan.planned is not None:
        need = plan.planned.replicas
        wish = mix.carrying(need) if mix is not None else need
        held, bound = _held(scaling, wish, mix)
        said = f"the declared load needs {need}"
        if mix is not None and wish != need:
            said += f" of class {plan.class_name}, as much as {wish} carry, {mix.on_later} of them of later classes"
        said += f" and {_bound_words(scaling, bound, held)}" if bound else ""
        decision = ReplicasDecision(held, ScalingReason.SIZED_FOR_LOAD, said, bound)
    else:
        low = scaling.min_replicas
        said = f"nothing is predicted or measured of one replica, so minReplicas {low} holds"
        decision = ReplicasDecision(low, ScalingReason.NO_SIGNAL, said, "minReplicas")
    return _with_ignored(decision, scaling, metadata)


def followed(scaling: Scaling, metadata: Mapping[str, Any], shown: Change) -> ReplicasDecision:
    """The decision of mode Active on what is measured."""
    low = shown.bound is not None and shown.bound.startswith(("minReplicas", "schedules["))
    source = f"{shown.bound} asks for" if low else "the measured load gets"
    decision = ReplicasDecision(shown.to, shown.reason, shown.detail, shown.bound, source=source)
    return _with_ignored(decision, scaling, metadata)


def advised(decision: ReplicasDecision, shown: Change) -> ReplicasDecision:
    """The decision of mode Advisory: nothing is done, and it says what mode Active would do."""
    bound = f" ({shown.bound})" if shown.bound else ""
    count = f"{shown.to} replica{'' if shown.to == 1 else 's'}"
    return replace(
        decision, detail=f"{decision.detail}; mode Active would run {count}: {shown.reason}, {shown.detail}{bound}"
    )


def _with_ignored(decision: ReplicasDecision, scaling: Scaling, metadata: Mapping[str, Any]) -> ReplicasDecision:
    ignored = _ignored(scaling, decision.replicas, scalers(metadata))
    if not ignored:
        return decision
    return replace(decision, detail=f"{decision.detail}; {ignored}", ignored=ignored)


def _held(scaling: Scaling, wish: int, mix: Mix | None) -> tuple[int, str | None]:
    """The wish inside the bounds, and the bound that clipped it."""
    bounds = [(scaling.max_replicas, "maxReplicas")]
    if scaling.max_accelerators is not None and mix is not None:
        bounds.append((mix.within(scaling.max_accelerators), "maxAccelerators"))
    high, name = min(bounds)
    if wish > high:
        return high, name
    return (scaling.min_replicas, "minReplicas") if wish < scaling.min_replicas else (wish, None)


def _bound_words(scaling: Scaling, bound: str, held: int) -> str:
    if bound == "maxAccelerators":
        return f"maxAccelerators {scaling.max_accelerators} allows {held}"
    return f"{bound} is {held}"


def scalers(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """The managers that wrote `spec.scaling.replicas` through the scale subresource, by name."""
    path = ("fieldsV1", "f:spec", "f:scaling", "f:replicas")
    entries = (entry for entry in raw.items(metadata, "managedFields") if raw.text(entry, "subresource") == "scale")
    return tuple(sorted({raw.text(entry, "manager") for entry in entries if raw.at(entry, *path) is not None}))


_HPA = "kube-controller-manager"
_SCALERS = {_HPA: "a HorizontalPodAutoscaler (KEDA makes them too)"}
"""What is behind managers of the scale subresource that name themselves after something else."""


def _ignored(scaling: Scaling, held: int, by: tuple[str, ...]) -> str:
    """A sentence about a wish for another number outside mode Manual. The default, written by nobody, is no wish."""
    default = Scaling.model_fields["replicas"].default
    if scaling.replicas == held or (not by and scaling.replicas == default):
        return ""
    who = f", written by {', '.join(_SCALERS.get(name, name) for name in by)}," if by else ""
    return f"replicas {scaling.replicas}{who} is ignored: mode is {scaling.mode}; set mode Manual to scale by hand"
