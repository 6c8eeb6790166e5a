"""What a plan is made from, in one canonical spelling, and the hash that names a revision. Pure.

In: what determines a pod. Out: replica counts and bounds, and every setting of the operator. Where nothing is
predicted, objectives are out too, because no pod depends on them, and how many accelerators a node has is in only as
the number of nodes of a replica that one does not hold. Where the planner chooses, objectives are in, with all that the
listed classes state of their performance, and prices, profiles and nodes are out: they count when a plan is made, and a
later change of them rolls no fleet.

An absent or default value is left out, so that a later version's new field does not change the hash of a spec that does
not use it; equal quantities, orders that mean nothing and spelled-out defaults hash alike (kthena#914).
"""

import json
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from modelfleet.api.acceleratorclass import AcceleratorClass
from modelfleet.api.kubernetes_types import Toleration
from modelfleet.api.model import PickledWeights, RemoteCode
from modelfleet.api.modeldeployment import ExpertParallelism, ModelDeployment, Prefer
from modelfleet.api.schema import ApiModel, canonical
from modelfleet.core.layout.shape import Layout

REVISION_DIGITS = 8
_PROMISE_DIGITS = 12
BARE = "true"  # the value that makes a flag stand alone; an empty one is another spelling of it


def plan_inputs(
    deployment: ModelDeployment, accelerator: AcceleratorClass, later: Iterable[AcceleratorClass] = ()
) -> dict[str, Any]:
    """The canonical inputs where nothing is predicted, a JSON value without empty parts. `later` are the classes after
    the first; with none these are the inputs that plans of one class have always had."""
    pins = deployment.spec.parallelism
    shape = Layout(pins.tensor or 1, pins.pipeline or 1, pins.data or 1)
    layout = {
        "tensor": pins.tensor or 1,
        "pipeline": _above_one(pins.pipeline),
        "data": _above_one(pins.data),
        "expert": "Always" if pins.expert is ExpertParallelism.ALWAYS else None,
        "nodes": _above_one(shape.nodes(accelerator.spec.accelerators_per_node)),
    }
    others = [
        _of_class(each) | _cache(deployment, each) | {"nodes": _above_one(shape.nodes(each.spec.accelerators_per_node))}
        for each in later
    ]
    first = _of_class(accelerator) | _cache(deployment, accelerator)
    return _pruned(_of_deployment(deployment) | layout | {"class": first, "later": others})


_NOT_PLANNED = {"name", "firstCaller"}  # of an objective: what no layout depends on


def planner_inputs(deployment: ModelDeployment, classes: Iterable[AcceleratorClass]) -> dict[str, Any]:
    """The canonical inputs where the planner chooses among the listed classes."""
    spec = deployment.spec
    objectives = [_stated(objective) for objective in spec.objectives]
    chosen = {
        "model": {
            "variants": [_stated(variant) for variant in spec.model.variants],
            "facts": _optional(spec.model.facts),
        },
        "objectives": [{key: part for key, part in each.items() if key not in _NOT_PLANNED} for each in objectives],
        "prefer": _unless(spec.accelerators.prefer, Prefer.COST),
        "parallelism": _stated(spec.parallelism),
        "quantization": _stated(spec.quantization),
        "speculation": _stated(spec.speculation),
        "engine": {"version": _text(spec.engine.version)},
        "replan": _text(spec.replan),
        "classes": [_of_class(each) | _cache(deployment, each) | _performance(each) for each in classes],
    }
    base = _of_deployment(deployment)
    return _pruned(base | chosen | {key: base[key] | chosen[key] for key in ("model", "engine")})


def promised(deployment: ModelDeployment) -> str:
    """Names what a measured knee holds for: times, shares and lengths of the objectives, and of several their loads."""
    several = len(deployment.spec.objectives) > 1
    left_out = _NOT_PLANNED if several else _NOT_PLANNED | {"load"}
    parts = [
        {key: part for key, part in _stated(each).items() if key not in left_out} for each in deployment.spec.objectives
    ]
    return digest({"objectives": parts, "context": deployment.spec.model.max_context_tokens})[:_PROMISE_DIGITS]


def _of_deployment(deployment: ModelDeployment) -> dict[str, Any]:
    spec = deployment.spec
    return {
        "model": {
            "source": spec.model.source.canonical,
            "servedNames": [str(name) for name in deployment.served_names],
            "maxContextTokens": spec.model.max_context_tokens,
            "endpoint": spec.model.endpoint.canonical if spec.model.endpoint else None,
            "credentials": _text(spec.model.credentials_secret_ref.name) if spec.model.credentials_secret_ref else None,
            "cache": _text(spec.model.cache.claim_name) if spec.model.cache else None,
            "pickledWeights": _unless(spec.model.pickled_weights, PickledWeights.REFUSE),
            "remoteCode": _unless(spec.model.remote_code, RemoteCode.REFUSE),
        },
        "engine": {
            "image": _text(spec.engine.image),
            "installationClaimName": _text(spec.engine.installation_claim_name),
            "args": {str(flag): value.canonical or BARE for flag, value in spec.engine.args.items()},
            "env": {str(variable.name): str(variable.value) for variable in spec.engine.env},
        },
        "placement": {
            "nodeSelector": {str(key): str(value) for key, value in spec.placement.node_selector.items()},
            "tolerations": canonical_tolerations(spec.placement.tolerations),
            "priorityClassName": _text(spec.placement.priority_class_name),
        },
        "imagePullSecrets": sorted({str(secret.name) for secret in spec.image_pull_secrets}),
    }


def _of_class(accelerator: AcceleratorClass) -> dict[str, Any]:
    kind, host = accelerator.spec, accelerator.spec.host_per_accelerator
    return {
        "name": accelerator.metadata.name,
        "nodeSelector": {str(key): str(value) for key, value in kind.node_selector.items()},
        "resourceName": kind.requested,
        "device": str(kind.device),
        "host": {
            "cpu": host.cpu.canonical if host.cpu else None,
            "memory": host.memory.canonical if host.memory else None,
        },
        "tolerations": canonical_tolerations(kind.tolerations),
    }


def _cache(deployment: ModelDeployment, accelerator: AcceleratorClass) -> dict[str, Any]:
    """A host path that is granted or taken back counts where it is used; its size and age move no pod."""
    model, granted = deployment.spec.model, accelerator.spec.node_cache
    used = model.is_fetched and model.cache is None
    return {"nodeCache": str(granted.path) if granted is not None and used else None}


def _performance(accelerator: AcceleratorClass) -> dict[str, Any]:
    """What a class states that layouts depend on; its prices are not among it."""
    spec = accelerator.spec
    return {
        "acceleratorsPerNode": spec.accelerators_per_node,
        "memory": _optional(spec.memory),
        "memoryBandwidth": _optional(spec.memory_bandwidth),
        "compute": _optional(spec.compute),
        "computeCapability": _optional(spec.compute_capability),
        "fabric": _optional(spec.fabric),
        "network": _optional(spec.network),
        "standardQuantization": _stated(spec.standard_quantization),
        "engineVersions": sorted(str(version) for version in spec.engine_versions),
    }


def _stated(part: ApiModel) -> dict[str, Any]:
    """A part in canonical spelling without what is as if it were absent."""
    found = {}
    for name, field in type(part).model_fields.items():
        value = getattr(part, name)
        default = None if field.is_required() else field.get_default(call_default_factory=True)
        if canonical(value) != canonical(default):
            found[field.alias or name] = _stated(value) if isinstance(value, ApiModel) else canonical(value)
    return dict(sorted(found.items()))


def _optional(part: object) -> Any:
    return _stated(part) if isinstance(part, ApiModel) else canonical(part)


def _unless(value: object, default: object) -> str | None:
    return None if value == default else str(value)


def _above_one(degree: int | None) -> int | None:
    return degree if degree is not None and degree > 1 else None


def digest(inputs: dict[str, Any]) -> str:
    """The SHA-256 of the inputs' canonical JSON, in hex; its first REVISION_DIGITS name the revision."""
    text = json.dumps(inputs, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256(text.encode()).hexdigest()


def corrected_digest(base: str, flags: Mapping[str, str]) -> str:
    """The hash where settings were lowered after a death for lack of memory: of the inputs' own hash and of the flags
    with their values. Without flags it is `base`."""
    return digest({"inputs": base, "memory": dict(flags)}) if flags else base


def canonical_tolerations(tolerations: Iterable[Toleration]) -> list[dict[str, Any]]:
    """Tolerations as pods take them, each once, in an order that does not depend on how they were written."""
    spelled = [_toleration(toleration) for toleration in tolerations]
    by_text = {json.dumps(toleration, sort_keys=True): toleration for toleration in spelled}
    return [by_text[text] for text in sorted(by_text)]


def _toleration(toleration: Toleration) -> dict[str, Any]:
    spelled = {
        "key": _text(toleration.key),
        "operator": str(toleration.operator) if toleration.operator else "Equal",
        "value": _text(toleration.value),
        "effect": _text(toleration.effect),
        "tolerationSeconds": toleration.toleration_seconds,
    }
    return {key: value for key, value in spelled.items() if value is not None}


def _text(value: str | None) -> str | None:
    return str(value) if value else None


def _pruned(value: dict[str, Any]) -> dict[str, Any]:
    """Without what is absent or empty, at every depth."""
    kept = {key: _pruned_part(part) for key, part in value.items()}
    return {key: part for key, part in kept.items() if part is not None and part != {} and part != []}


def _pruned_part(part: Any) -> Any:
    if isinstance(part, dict):
        return _pruned(part)
    return [_pruned_part(item) for item in part] if isinstance(part, list) else part
