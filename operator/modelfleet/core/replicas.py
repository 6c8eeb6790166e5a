"""How many replicas there should be, and why. Pure.

Mode Manual takes `spec.scaling.replicas` inside the bounds. Mode Active holds minReplicas in this version: no goodput
signal is read yet, and without one a larger number would be a guess.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from modelfleet.api.modeldeployment import Scaling, ScalingMode
from modelfleet.api.reasons import ScalingReason
from modelfleet.core import raw


@dataclass(frozen=True)
class ReplicasDecision:
    """The wanted number. `bound` is the field that clipped the wish or stands in for one; `ignored` says which wish was
    not followed, empty if there is none."""

    replicas: int
    reason: ScalingReason
    detail: str
    bound: str | None = None
    ignored: str = ""


def decide_replicas(scaling: Scaling, metadata: Mapping[str, Any]) -> ReplicasDecision:
    """The number of replicas; `metadata` is the raw object's, whose managed fields name a foreign scaler."""
    low, high = scaling.min_replicas, scaling.max_replicas
    if scaling.mode is ScalingMode.MANUAL:
        wish = scaling.replicas
        held = min(max(wish, low), high)
        if held == wish:
            return ReplicasDecision(held, ScalingReason.MANUAL, f"replicas is {wish}")
        bound = "minReplicas" if held == low else "maxReplicas"
        return ReplicasDecision(held, ScalingReason.MANUAL, f"replicas is {wish} and {bound} is {held}", bound)
    detail = f"no goodput signal is read in this version, so minReplicas {low} holds"
    ignored = _ignored(scaling, low, scalers(metadata))
    if ignored:
        detail = f"{detail}; {ignored}"
    return ReplicasDecision(low, ScalingReason.NO_SIGNAL, detail, "minReplicas", ignored)


def scalers(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """The managers that wrote `spec.scaling.replicas` through the scale subresource, by name."""
    path = ("fieldsV1", "f:spec", "f:scaling", "f:replicas")
    entries = (entry for entry in raw.items(metadata, "managedFields") if raw.text(entry, "subresource") == "scale")
    return tuple(sorted({raw.text(entry, "manager") for entry in entries if raw.at(entry, *path) is not None}))


def _ignored(scaling: Scaling, held: int, by: tuple[str, ...]) -> str:
    """A sentence about a wish for another number outside mode Manual. The default, written by nobody, is no wish."""
    default = Scaling.model_fields["replicas"].default
    if scaling.replicas == held or (not by and scaling.replicas == default):
        return ""
    who = f", written by {', '.join(by)}," if by else ""
    return f"replicas {scaling.replicas}{who} is ignored: mode is {scaling.mode}; set mode Manual to scale by hand"
