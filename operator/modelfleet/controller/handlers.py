"""What wakes a reconcile. Never what a reconcile does. Runs in kopf's thread."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import kopf

from modelfleet.api import names
from modelfleet.controller.resources import BUDGETS, CHILDREN, CLASSES, DEPLOYMENTS, Resource
from modelfleet.controller.triggers import Key, Triggers
from modelfleet.core import raw

_Seen = tuple[object, ...]


@dataclass
class Echoes:
    """Tells an event that our own status write made from one that may matter. Remembers one small tuple an object.

    What waits in activators (status.demand) is theirs, not ours: it matters.
    """

    _seen: dict[str, _Seen] = field(default_factory=dict)

    def only_status_changed(self, event: kopf.RawEvent) -> bool:
        """Nothing but status differs from what this object's last event showed."""
        metadata: Any = event["object"]["metadata"]
        now = (
            metadata.get("generation"),
            metadata.get("labels"),
            metadata.get("annotations"),
            raw.at(event["object"], "status", "demand"),
            metadata.get("deletionTimestamp"),
        )
        before = self._seen.get(metadata["uid"])
        if event["type"] == "DELETED":
            self._seen.pop(metadata["uid"], None)
        else:
            self._seen[metadata["uid"]] = now
        return event["type"] == "MODIFIED" and before == now and now[-1] is None


class Wakes:
    """Which keys an event asks for. What is only listed, at a start or by a watch that begins anew, and what may touch
    many at once goes behind what has changed."""

    def __init__(self, triggers: Triggers) -> None:
        self._triggers, self._echoes = triggers, Echoes()
        self._classes: dict[Key, frozenset[str]] = {}

    def deployment(self, event: kopf.RawEvent, key: Key) -> None:
        """An event of a ModelDeployment itself."""
        if event["type"] == "DELETED":
            self._classes.pop(key, None)
        else:
            # Old replicas of a rollout stay on a class that the spec names no more.
            self._classes[key] = classes_of(event["object"]) | self._classes.get(key, frozenset())
        if not self._echoes.only_status_changed(event):
            self._triggers.add(key, behind=_is_listed(event) and not _asks_for_something(event["object"]))

    def accelerator_class(self, name: str) -> None:
        """An event of an AcceleratorClass. One whose models' own events are still to come asks for none."""
        for key, classes in tuple(self._classes.items()):
            if name in classes:
                self._triggers.add(key, behind=True)

    def child(self, event: kopf.RawEvent, namespace: str) -> None:
        """An event of an object that is part of a ModelDeployment."""
        if event["object"].get("kind") == BUDGETS.kind and self._echoes.only_status_changed(event):
            return  # Kubernetes counts pods in it
        for name in deployments_of(event["object"]["metadata"]):
            self._triggers.add(Key(namespace, name), behind=_is_listed(event))


def registry(triggers: Triggers, noticed: Callable[[], None]) -> kopf.OperatorRegistry:
    """The handlers, as kopf wants them. `noticed` is called at every event, for the metric of the last one's age."""
    handlers = kopf.OperatorRegistry()
    wakes = Wakes(triggers)

    @kopf.on.event(*_selector(DEPLOYMENTS), registry=handlers)
    async def deployment_changed(event: kopf.RawEvent, namespace: str | None, name: str, **_: Any) -> None:
        noticed()
        wakes.deployment(event, Key(str(namespace), name))

    @kopf.on.event(*_selector(CLASSES), registry=handlers)
    async def class_changed(name: str, **_: Any) -> None:
        noticed()
        wakes.accelerator_class(name)

    async def child_changed(event: kopf.RawEvent, namespace: str | None, **_: Any) -> None:
        noticed()
        wakes.child(event, str(namespace))

    for child in CHILDREN:
        kopf.on.event(*_selector(child), labels={names.DEPLOYMENT_LABEL: kopf.PRESENT}, registry=handlers)(
            child_changed
        )
    return handlers


def classes_of(deployment: Any) -> frozenset[str]:
    """The AcceleratorClasses that a ModelDeployment, of any shape, names, and those that its pinned plan runs on."""
    listed = raw.at(deployment, "spec", "accelerators", "classes")
    named = {str(each) for each in listed} if isinstance(listed, list) else set()
    return frozenset(named | {raw.text(pool, "class") for pool in raw.items(deployment, "status", "plan", "pools")})


def deployments_of(metadata: Mapping[str, Any]) -> set[str]:
    """The ModelDeployments that a child's event is about: the one that its label names, and the one that owns it,
    which differ after somebody has edited the label."""
    owners = metadata.get("ownerReferences") or ()
    names_found = {
        str(owner["name"]) for owner in owners if owner.get("controller") and owner.get("kind") == names.DEPLOYMENT_KIND
    }
    return names_found | {metadata["labels"][names.DEPLOYMENT_LABEL]}


def _is_listed(event: kopf.RawEvent) -> bool:
    """It shows what is there, not that anything changed."""
    return event["type"] is None


def _asks_for_something(deployment: Any) -> bool:
    """A user's change that no status answers yet, or requests that wait for a replica: made while nobody led, or while
    the watch was broken."""
    seen = raw.integer(deployment, "status", "observedGeneration", default=-1)
    waits = raw.at(deployment, "status", "demand")
    return seen != raw.integer(deployment, "metadata", "generation") or bool(waits)


def _selector(resource: Resource) -> tuple[str, str, str]:
    group, _, version = resource.api_version.rpartition("/")
    return group, version, resource.plural
