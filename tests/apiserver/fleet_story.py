"""Ten ModelDeployments that are created, changed, scaled, deleted and created again, and what is there after each."""

import copy
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from fleet import Fleet

from modelfleet.api import names
from modelfleet.api.conditions import ConditionType
from modelfleet.api.rollout import Rollout
from modelfleet_local.waiting import wait_until

NAMES = tuple(f"model-{number}" for number in range(10))
KINDS = ("pods", "services", "configmaps", "controllerrevisions")
SETTLES_S = 120.0
_MOVING = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")
_SHORT = ("created", "scaled", "deleted")
_SELECTOR = f"?labelSelector={names.DEPLOYMENT_LABEL}"

Operation = Callable[[Fleet], None]
Picture = dict[str, Any]


def parts(*, whole: bool) -> dict[str, list[Operation]]:
    """The parts of the story, in order. Each touches a ModelDeployment at most once, so its end is one state only."""
    return {name: operations for name, operations in _all_parts().items() if whole or name in _SHORT}


def _all_parts() -> dict[str, list[Operation]]:
    gone, stay = NAMES[::3], [name for name in NAMES if name not in NAMES[::3]]
    return {
        "created": [wanted(name, 1 + index % 3) for index, name in enumerate(NAMES)],
        "rolled out or given other bounds": [
            wanted(name, 1 + index % 3, image=2 if index % 2 else 1, most=5 if index % 2 else 6)
            for index, name in enumerate(NAMES)
        ],
        "scaled": [
            wanted(name, 1 + (index + 1) % 3, image=2 if index % 2 else 1, most=5 if index % 2 else 6)
            for index, name in enumerate(NAMES)
        ],
        "deleted": [deleted(name) for name in gone],
        "created again, rolled back": [
            *(wanted(name, 2, image=3) for name in gone),
            *(wanted(name, 2, image=1) for name in stay),
        ],
    }


def wanted(name: str, replicas: int, *, image: int = 1, most: int = 5) -> Operation:
    """A ModelDeployment is created, or given this spec."""
    scaling = {"mode": "Manual", "minReplicas": 1, "maxReplicas": most, "replicas": replicas}
    engine = {"image": f"example.com/worker:{image}"}

    def operation(fleet: Fleet) -> None:
        manifest = fleet.deployment(name, scaling=scaling, engine=engine)
        if fleet.get(names.DEPLOYMENT_PLURAL, name) is None:
            fleet.api.create(fleet.path(names.DEPLOYMENT_PLURAL), manifest)
        else:
            fleet.api.patch(fleet.path(names.DEPLOYMENT_PLURAL, name), {"spec": manifest["spec"]})

    return operation


def deleted(name: str) -> Operation:
    return lambda fleet: void(fleet.kubectl("delete", "mdep", name, "--wait=false"))


def void(_: object) -> None:
    return None


def play(
    fleet: Fleet, story: dict[str, list[Operation]], disturb: Callable[[list[Operation]], None]
) -> dict[str, Picture]:
    """Tells the story; `disturb` is given each part's operations to do. What is there after each part."""
    pictures = {}
    with watched(fleet) as (births, living):
        for part, operations in story.items():
            disturb(operations)
            fleet_rests(fleet, part)
            wait_until("a watch that saw every pod", lambda: set(living) == uids(fleet), timeout_s=SETTLES_S)
            pictures[part] = picture(fleet) | {"pods that were created": dict(births)}
    return pictures


def clear(fleet: Fleet) -> None:
    """Deletes every ModelDeployment and waits until their children are gone."""
    fleet.kubectl("delete", "mdep", "--all", "--wait=true")
    wait_until("no children", lambda: not any(listed(fleet, kind) for kind in KINDS), timeout_s=SETTLES_S)


def listed(fleet: Fleet, kind: str) -> list[dict[str, Any]]:
    """Everything of a kind that carries our label."""
    return list(fleet.api.get(fleet.path(kind) + _SELECTOR)["items"])


def fleet_rests(fleet: Fleet, part: str) -> None:
    """Until every ModelDeployment is settled, its status speaks of its spec, and no pod is on its way."""
    try:
        wait_until(f"a fleet that rests after {part}", lambda: not unrest(fleet), timeout_s=SETTLES_S)
    except Exception as error:
        raise AssertionError(f"{error}: {json.dumps(unrest(fleet), indent=1)}") from error


def uids(fleet: Fleet) -> set[str]:
    """Of the pods that are there."""
    return {pod["metadata"]["uid"] for pod in listed(fleet, "pods")}


def unrest(fleet: Fleet) -> list[str]:
    """What still moves, or stands as it should not."""
    found = []
    deployments = fleet.api.get(fleet.path(names.DEPLOYMENT_PLURAL))["items"]
    for stored in deployments:
        name, status = stored["metadata"]["name"], stored.get("status", {})
        said = {each["type"]: each["reason"] for each in status.get("conditions", ())}
        if status.get("observedGeneration") != stored["metadata"]["generation"]:
            found.append(f"{name} is not looked at")
        if (said.get("Ready"), said.get("Progressing")) != ("Serving", "Settled"):
            found.append(f"{name}: {said.get('Ready')}, {said.get('Progressing')}")
    owners = {stored["metadata"]["uid"] for stored in deployments}
    for kind in KINDS:
        for child in listed(fleet, kind):
            owner = next((ref["uid"] for ref in child["metadata"].get("ownerReferences", ())), None)
            if owner not in owners or "deletionTimestamp" in child["metadata"]:
                found.append(f"{kind} {child['metadata']['name']} is an orphan or on its way out")
    return found


def picture(fleet: Fleet) -> Picture:
    """What is there, without what differs from run to run."""
    found: Picture = {}
    for kind in (names.DEPLOYMENT_PLURAL, *KINDS):
        path = fleet.path(kind) + ("" if kind == names.DEPLOYMENT_PLURAL else _SELECTOR)
        for stored in fleet.api.get(path)["items"]:
            plain = _plain(kind, stored)
            if kind != "configmaps" or plain["data"]:
                found[f"{kind} {stored['metadata']['name']}"] = plain
    return found


def _plain(kind: str, stored: dict[str, Any]) -> Any:
    plain = copy.deepcopy(stored)
    for field in _MOVING:
        plain["metadata"].pop(field, None)
    plain["metadata"].get("annotations", {}).pop(names.PLACEMENT_ANNOTATION, None)  # it tells of the pods placed before
    for owner in plain["metadata"].get("ownerReferences", ()):
        owner.pop("uid")
    if kind == names.DEPLOYMENT_PLURAL:
        status = plain["status"]
        status.pop("observedGeneration")
        for condition in status["conditions"]:
            condition.pop("lastTransitionTime")
            condition.pop("observedGeneration")
            if condition["type"] == ConditionType.OBJECTIVES_MET:
                condition.pop("message")  # what this process has heard of workers so far
        for field in ("from", "at"):  # a killed operator may have come further than it could tell
            status.get("scaling", {}).get("lastDecision", {}).pop(field, None)
        return plain
    plain.pop("status", None)
    if "progress" in json.loads(plain.get("data", {}).get(names.ROLLOUT_KEY, "{}")):
        plain["data"].pop(names.ROLLOUT_KEY)  # the clock of a rollout: what its process saw, and when
    for field in ("nodeName", "clusterIP", "clusterIPs"):
        plain.get("spec", {}).pop(field, None)
    return plain


@contextmanager
def watched(fleet: Fleet) -> Iterator[tuple[Counter[str], dict[str, str]]]:
    """Counts how often each pod name was created, and knows the living by uid; fails if a deployment ever has more pods
    than a rollout may."""
    births: Counter[str] = Counter()
    living: dict[str, str] = {}
    faults: list[str] = []
    stop = threading.Event()
    # From a version on: no pod is missed, however late the watch begins.
    version = fleet.api.get(fleet.path("pods"))["metadata"]["resourceVersion"]
    path = f"{fleet.path('pods')}{_SELECTOR}&watch=true&resourceVersion={version}"

    def look() -> None:
        for event in fleet.api.watch(path, timeout_s=600):
            if stop.is_set():
                return
            pod = event["object"]["metadata"]
            births[pod["name"]] += event["type"] == "ADDED"
            living[pod["uid"]] = pod["labels"][names.DEPLOYMENT_LABEL]
            if event["type"] == "DELETED" or "deletionTimestamp" in pod:
                living.pop(pod["uid"], None)
            worst = Counter(living.values()).most_common(1)
            if worst and worst[0][1] > 3 + Rollout().max_surge:
                faults.append(f"{worst[0]} pods at once")

    threading.Thread(target=look, daemon=True).start()
    yield births, living
    stop.set()
    assert not faults, faults
