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


def registry(triggers: Triggers, noticed: Callable[[], None]) -> kopf.OperatorRegistry:
    """The handlers, as kopf wants them. `noticed` is called at every event, for the metric of the last one's age."""
    handlers = kopf.OperatorRegistry()
    echoes = Echoes()

    @kopf.on.event(*_selector(DEPLOYMENTS), registry=handlers)
    async def deployment_changed(event: kopf.RawEvent, namespace: str | None, name: str, **_: Any) -> None:
        noticed()
        if not echoes.only_status_changed(event):
            triggers.add(Key(str(namespace), name))

    @kopf.on.event(*_selector(CLASSES), registry=handlers)
    async def class_changed(**_: Any) -> None:
        noticed()
        triggers.add_all()

    async def child_changed(event: kopf.RawEvent, namespace: str | None, body: kopf.Body, **_: Any) -> None:
        noticed()
        if event["object"].get("kind") == BUDGETS.kind and echoes.only_status_changed(event):
            return  # Kubernetes counts pods in it
        for name in deployments_of(body["metadata"]):
            triggers.add(Key(str(namespace), name))

    for child in CHILDREN:
        kopf.on.event(*_selector(child), labels={names.DEPLOYMENT_LABEL: kopf.PRESENT}, registry=handlers)(
            child_changed
        )
    return handlers


def deployments_of(metadata: Mapping[str, Any]) -> set[str]:
    """The ModelDeployments that a child's event is about: the one that its label names, and the one that owns it,
    which differ after somebody has edited the label."""
    owners = metadata.get("ownerReferences") or ()
    names_found = {
        str(owner["name"]) for owner in owners if owner.get("controller") and owner.get("kind") == names.DEPLOYMENT_KIND
    }
    return names_found | {metadata["labels"][names.DEPLOYMENT_LABEL]}


def _selector(resource: Resource) -> tuple[str, str, str]:
    group, _, version = resource.api_version.rpartition("/")
    return group, version, resource.plural
