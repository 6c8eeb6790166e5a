"""What the table of good and bad objects is made of: two sound objects, changes to them, and what is said."""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

ABSENT = object()

DEPLOYMENT: Mapping[str, Any] = {
    "apiVersion": "modelfleet.dev/v1alpha1",
    "kind": "ModelDeployment",
    "metadata": {"name": "chat", "namespace": "default"},
    "spec": {
        "model": {"source": "pvc://weights/llama"},
        "objectives": [
            {
                "name": "interactive",
                "ttft": "500ms",
                "tpot": "50ms",
                "load": {"requestsPerSecond": 12},
                "lengths": {"inputTokens": {"p50": 900, "p95": 4000}, "outputTokens": {"p50": 250, "p95": 800}},
            }
        ],
        "accelerators": {"classes": ["h100-sxm"]},
        "scaling": {"minReplicas": 1, "maxReplicas": 4},
    },
}

CLASS: Mapping[str, Any] = {
    "apiVersion": "modelfleet.dev/v1alpha1",
    "kind": "AcceleratorClass",
    "metadata": {"name": "h100-sxm"},
    "spec": {
        "nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
        "resourceName": "nvidia.com/gpu",
        "acceleratorsPerNode": 8,
    },
}


def changed(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with values put at dotted paths (a number is a place in a list); ABSENT takes a field away."""
    result = copy.deepcopy(dict(base))
    for path, value in changes.items():
        *parents, last = path.split(".")
        node: Any = result
        for step in parents:
            node = node[int(step)] if step.isdigit() else node.setdefault(step, {})
        if value is ABSENT:
            del node[last]
        elif last.isdigit():
            node[int(last) :] = [value]
        else:
            node[last] = value
    return result


@dataclass(frozen=True)
class Good:
    """An object that everybody takes."""

    id: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    base: Mapping[str, Any] = field(default_factory=lambda: DEPLOYMENT)

    @property
    def manifest(self) -> dict[str, Any]:
        return changed(self.base, self.changes)


@dataclass(frozen=True)
class Bad:
    """An object that is refused, with the path and sentence that Python says.

    `server` is what the API server says where it is not the same sentence: a type or a bound of the schema.
    """

    id: str
    changes: Mapping[str, Any]
    path: str
    says: str
    server: str = ""
    base: Mapping[str, Any] = field(default_factory=lambda: DEPLOYMENT)

    @property
    def manifest(self) -> dict[str, Any]:
        return changed(self.base, self.changes)


OBJECTIVE = "spec.objectives.0"
AT = "spec.objectives[0]"
SECOND = DEPLOYMENT["spec"]["objectives"][0]


def sentences_of(schema: Mapping[str, Any]) -> Iterator[str]:
    """Every sentence that a schema's rules can say; of one that depends on the object, its last fixed part."""
    for rule in schema.get("x-kubernetes-validations", ()):
        yield rule["message"] if "message" in rule else rule["messageExpression"].split("'")[-2]
    for part in (*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")):
        if isinstance(part, Mapping):
            yield from sentences_of(part)
