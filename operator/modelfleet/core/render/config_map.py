"""The ConfigMap that hands a revision's plan to its workers. Pure."""

import json
from typing import Any

from modelfleet.api import names
from modelfleet.api.values import Quantity
from modelfleet.core.plan import Plan
from modelfleet.core.render.metadata import Owner, metadata
from modelfleet.core.render.weights import compiled_order, weights_order


def config_map(owner: Owner, revision: str, plan: Plan) -> dict[str, Any]:
    """The immutable ConfigMap of `revision`. The text is canonical JSON, so equal plans give equal bytes."""
    text = json.dumps(worker_plan(revision, plan), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(owner, names.revision(owner.name, revision), {names.REVISION_LABEL: revision}),
        "immutable": True,
        "data": {names.PLAN_KEY: text},
    }


def worker_plan(revision: str, plan: Plan) -> dict[str, Any]:
    """What the worker reads (docs/architecture.md, the worker's contract)."""
    engine: dict[str, Any] = {"args": list(plan.engine_args), "env": dict(plan.engine_env)}
    if plan.installation_claim:
        engine["python"] = f"{names.ENGINE_MOUNT}/bin/python"
    if plan.engine_version:
        engine["version"] = plan.engine_version
    weights, compiled = weights_order(plan), compiled_order(plan)
    group = {"nodes": plan.nodes, "data": plan.data, "masterPort": names.MASTER_PORT}
    return {
        **({"group": group} if plan.nodes > 1 else {}),
        **({"weights": weights} if weights else {}),
        **({"compiled": compiled} if compiled else {}),
        "revision": revision,
        "model": {"path": plan.model_path, "servedNames": list(plan.served_names)},
        "engine": engine,
        "limits": plan.limits.model_dump(mode="json", by_alias=True),
        **_memory(plan),
    }


def _memory(plan: Plan) -> dict[str, Any]:
    """What the worker holds its accelerators to, where the class states it."""
    if not plan.accelerator_memory:
        return {}
    stated = int(Quantity(plan.accelerator_memory).exact)
    return {"memory": {"device": plan.device, "accelerator_bytes": stated}}
