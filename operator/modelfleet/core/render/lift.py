"""The gate that a pod waits behind until all of its replica can be placed, and the patch that lifts it. Pure.

A gated pod can be pinned once and not elsewhere, and a gate that is gone does not come back (run on 1.36.3), so the pin
and the lifting are one write.
"""

from typing import Any

from modelfleet.api import names
from modelfleet.core import raw
from modelfleet.core.effects import Lift, Manifest

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def gated(pod: Manifest) -> dict[str, Any]:
    """The rendered pod, behind our gate."""
    return {**pod, "spec": {**pod["spec"], "schedulingGates": [{"name": names.PLACED_GATE}]}}


def lift(pod: Any, node: str, why: str = "") -> Lift:
    """The patch for the observed `pod`, with the reason for its node as an annotation. Every term of an affinity
    that somebody has required is kept and pinned: the scheduler takes a node that fits one of them."""
    pin = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = [dict(term) for term in raw.items(pod, "spec", "affinity", "nodeAffinity", _REQUIRED, "nodeSelectorTerms")]
    pinned = [{**term, "matchFields": [*raw.items(term, "matchFields"), pin]} for term in terms or [{}]]
    others = [dict(gate) for gate in raw.items(pod, "spec", "schedulingGates")]
    left = [gate for gate in others if gate.get("name") != names.PLACED_GATE]
    read = {"uid": raw.uid(pod), "resourceVersion": raw.text(pod, "metadata", "resourceVersion")}
    said = {"annotations": {names.PLACEMENT_ANNOTATION: why}} if why else {}
    return Lift(
        raw.name(pod),
        {
            "metadata": {**read, **said},
            "spec": {
                "affinity": {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": pinned}}},
                "schedulingGates": left or None,
            },
        },
    )
