"""What a plan is made from, in one canonical spelling, and the hash that names a revision. Pure.

In: what determines a pod. Out: replica counts and bounds, objectives (no pod depends on them in this version), how many
accelerators a node has (it only decides whether the plan is possible), and every setting of the operator.

An absent or default value is left out, so that a later version's new field does not change the hash of a spec that does
not use it; equal quantities, orders that mean nothing and spelled-out defaults hash alike (kthena#914).
"""

import json
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

from modelfleet.api.acceleratorclass import AcceleratorClass
from modelfleet.api.kubernetes_types import Toleration
from modelfleet.api.modeldeployment import ModelDeployment

REVISION_DIGITS = 8
BARE = "true"  # the value that makes a flag stand alone; an empty one is another spelling of it


def plan_inputs(deployment: ModelDeployment, accelerator: AcceleratorClass) -> dict[str, Any]:
    """The canonical inputs, a JSON value without empty parts."""
    spec, kind = deployment.spec, accelerator.spec
    host = kind.host_per_accelerator
    return _pruned(
        {
            "model": {
                "source": spec.model.source.canonical,
                "servedNames": [str(name) for name in deployment.served_names],
                "maxContextTokens": spec.model.max_context_tokens,
            },
            "tensor": spec.parallelism.tensor,
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
            "class": {
                "name": accelerator.metadata.name,
                "nodeSelector": {str(key): str(value) for key, value in kind.node_selector.items()},
                "resourceName": str(kind.resource_name),
                "device": str(kind.device),
                "host": {
                    "cpu": host.cpu.canonical if host.cpu else None,
                    "memory": host.memory.canonical if host.memory else None,
                },
                "tolerations": canonical_tolerations(kind.tolerations),
            },
        }
    )


def digest(inputs: dict[str, Any]) -> str:
    """The SHA-256 of the inputs' canonical JSON, in hex; its first REVISION_DIGITS name the revision."""
    text = json.dumps(inputs, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256(text.encode()).hexdigest()


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
    """Without what is absent or empty, at every depth of mappings."""
    kept = {key: _pruned(part) if isinstance(part, dict) else part for key, part in value.items()}
    return {key: part for key, part in kept.items() if part is not None and part != {} and part != []}
