"""What people and other controllers do to nodes, gates and our objects: more accidents of a fleet, by a seed."""

from datetime import timedelta
from typing import Any

from sim_fleet import LATER, Accident, Fleet, node

from builders import merged
from modelfleet.api import names
from modelfleet.core import raw

OTHERS_GATE = "kueue.x-k8s.io/admission"
ODD_AMOUNTS = ("0", "-1", "1500m", "nonsense", "1", "", None)
LABELS: tuple[dict[str, Any], ...] = (
    {"modelfleet.dev/accelerator": None},
    {"topology.kubernetes.io/zone": "a"},
    {"topology.kubernetes.io/zone": ""},
)
EDITS: dict[str, tuple[dict[str, Any], ...]] = {
    "Service": ({"spec": {"selector": {names.SERVING_LABEL: "no"}}}, {"spec": {"type": "ExternalName"}}),
    "PodDisruptionBudget": (
        {"spec": {"minAvailable": 0}},
        {"spec": {"minAvailable": "50%"}},
        {"spec": {"minAvailable": None, "maxUnavailable": 1}},
    ),
    "NetworkPolicy": ({"spec": {"ingress": []}},),
    "ConfigMap": (
        {"data": {names.GROUPS_KEY: "{}"}},
        {"data": {names.ROLLOUT_KEY: "[]"}},
        {"data": {names.GROUPS_KEY: '{"replicas": {"x-0": 5}, "doubtful": {"node-0": "2026-01-01T00:01:00Z"}}'}},
        {"data": None},
    ),
}


def tainted(fleet: Fleet) -> str:
    effect = fleet.choose.choice(("NoSchedule", "NoExecute", "PreferNoSchedule"))
    return _node(fleet, {"spec": {"taints": [{"key": "repair", "value": "", "effect": effect}]}})


def odd_amount(fleet: Fleet) -> str:
    """A device plugin reports fewer accelerators, or nonsense."""
    return _node(fleet, {"status": {"allocatable": {"modelfleet.dev/cpu": fleet.choose.choice(ODD_AMOUNTS)}}})


def relabelled(fleet: Fleet) -> str:
    return _node(fleet, {"metadata": {"labels": fleet.choose.choice(LABELS)}})


def classes_listed(fleet: Fleet) -> str:
    """The user lists one class, both, or the other first."""
    classes = fleet.choose.choice((["cpu"], ["cpu", LATER], ["cpu", LATER], [LATER, "cpu"]))
    fleet.write({"accelerators": {"classes": classes}})
    return f"the user lists {', '.join(classes)}"


def accelerators_bounded(fleet: Fleet) -> str:
    most = fleet.choose.choice((None, 4, 8))
    fleet.write({"scaling": {"maxAccelerators": most}})
    return f"the user sets maxAccelerators to {most}"


def many_wanted(fleet: Fleet) -> str:
    count = fleet.choose.randint(1, 4)
    fleet.write({"scaling": {"replicas": count}})
    return f"the user wants {count} replicas"


def made_anew(fleet: Fleet) -> str:
    name = fleet.node()
    if name is None:
        return ""
    fleet.stage.nodes[name] = node(name)
    return f"{name} is made anew under its name"


def _node(fleet: Fleet, change: dict[str, Any]) -> str:
    name = fleet.node()
    if name is None:
        return ""
    fleet.stage.nodes[name] = merged(fleet.stage.nodes[name], change)
    return f"{name} changes: {change}"


def gated_by_others(fleet: Fleet) -> str:
    """Kueue takes a gated pod under its gate, as its webhook does at a creation, or lets it go."""
    pod = fleet.pod(lambda one: bool(raw.at(one, "spec", "schedulingGates")))
    if pod is None:
        return ""
    before = [gate["name"] for gate in pod["spec"]["schedulingGates"]]
    after = [name for name in before if name != OTHERS_GATE] if OTHERS_GATE in before else [*before, OTHERS_GATE]
    gates(fleet, pod, after)
    return f"the gates of {raw.name(pod)} are {after}"


def gates(fleet: Fleet, pod: dict[str, Any], left: list[str]) -> None:
    """The pod waits behind these."""
    change = {"spec": {"schedulingGates": [{"name": name} for name in left] or None}}
    fleet.stage.objects["Pod", raw.name(pod)] = merged(pod, change)


def edited(fleet: Fleet) -> str:
    keys = sorted(key for key in fleet.stage.objects if key[0] in EDITS)
    if not keys:
        return ""
    key = fleet.choose.choice(keys)
    change = fleet.choose.choice(EDITS[key[0]])
    fleet.stage.objects[key] = merged(fleet.stage.objects[key], change)
    return f"somebody edits {key[0]} {key[1]}: {change}"


def clock_back(fleet: Fleet) -> str:
    seconds = fleet.choose.choice((5, 90, 4000))
    fleet.stage.now -= timedelta(seconds=seconds)
    return f"the clock goes back by {seconds} s"


def none_by_others(fleet: Fleet) -> None:
    """No pod waits behind a gate of others any more."""
    for pod in fleet.stage.pods():
        left = [gate["name"] for gate in raw.items(pod, "spec", "schedulingGates") if gate["name"] != OTHERS_GATE]
        gates(fleet, pod, left)


OF_CLASSES: tuple[Accident, ...] = (classes_listed, accelerators_bounded, *(many_wanted,) * 4)
"""What users do where two classes may be listed."""

HANDS: tuple[Accident, ...] = (
    tainted,
    odd_amount,
    relabelled,
    made_anew,
    gated_by_others,
    gated_by_others,
    edited,
    edited,
    clock_back,
)
