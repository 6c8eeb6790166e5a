"""Worlds whose model is fetched: a fleet in which the Job answers with revisions."""

import json
from typing import Any

from builders import Fleet, Raw, accelerator_class, deployment
from planner_worlds import LLAMA_8B, PlannedFleet

COMMIT = "0123456789abcdef0123456789abcdef01234567"
CACHE = {"path": "/var/lib/modelfleet/weights", "size": "500Gi", "maxAge": "24h"}
HUB_MODEL: Raw = {
    "source": "hf://org/model@main",
    "endpoint": "https://hub.example.com",
    "credentialsSecretRef": {"name": "hub-token"},
}


def report(*revisions: str, checkpoint_bytes: int = 16060522496) -> str:
    """What the Job says."""
    model = {"config": LLAMA_8B, "checkpointBytes": checkpoint_bytes, "revisions": list(revisions)}
    return json.dumps({"model": model})


def fetching(model: Raw | None = None, *, cache: Raw | None = None, **parts: Any) -> PlannedFleet:
    """A fleet on the class `cpu`, which states no performance; `cache` is what it grants."""
    grants = {"nodeCache": cache} if cache else {}
    usual: dict[str, Any] = {"classes": {"cpu": accelerator_class(**grants)}, "words": report(COMMIT)}
    return PlannedFleet(deployment(model=model or HUB_MODEL), **(usual | parts))


def planned_by(fleet: PlannedFleet) -> PlannedFleet:
    """The fleet when its Job has answered and its pods are there."""
    fleet.reconcile()
    fleet.run_jobs()
    fleet.reconcile()
    fleet.reconcile()
    return fleet


def workers(fleet: Fleet) -> list[Raw]:
    """The worker pods."""
    return [item for (kind, name), item in sorted(fleet.objects.items()) if kind == "Pod" and "inspect" not in name]


def plan_json(fleet: Fleet) -> Raw:
    """What the workers read."""
    texts = [
        item["data"]["plan.json"]
        for (kind, _), item in fleet.objects.items()
        if kind == "ConfigMap" and "plan.json" in item["data"]
    ]
    found: Raw = json.loads(texts[-1])
    return found
