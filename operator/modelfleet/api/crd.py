"""The CustomResourceDefinitions, made from the models and the rules. Pure.

A structural schema has no references, no unions and no nulls, and every list, map and string in it is bounded: without
bounds the API server cannot estimate what a CEL rule costs, and refuses it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from modelfleet.api import names, rules
from modelfleet.api.acceleratorclass import AcceleratorClass
from modelfleet.api.modeldeployment import ModelDeployment
from modelfleet.api.modelprofile import ModelProfile
from modelfleet.api.rule import Rule
from modelfleet.api.schema import ApiModel

Schema = dict[str, Any]

_INT32_MAX = 2_147_483_647
_DROPPED = {"title", "const", "discriminator", "prefixItems", "deprecated", "propertyNames"}


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What a CustomResourceDefinition says besides the schema."""

    model: type[ApiModel]
    plural: str
    short: str
    scope: str
    columns: tuple[Mapping[str, Any], ...]
    subresources: Mapping[str, Any] = field(default_factory=dict)

    @property
    def file_name(self) -> str:
        """The name of the manifest's file, by kubebuilder's custom."""
        return f"{names.GROUP}_{self.plural}.yaml"


def _column(name: str, kind: str, path: str, description: str, priority: int = 0) -> Mapping[str, Any]:
    column: dict[str, Any] = {"name": name, "type": kind, "jsonPath": path, "description": description}
    return column | ({"priority": priority} if priority else {})


_AGE = _column("Age", "date", ".metadata.creationTimestamp", "How old the object is.")
_PRICE = ".spec.supplies[0].pricePerAcceleratorHour"
_READY = '.status.conditions[?(@.type=="Ready")]'
_PROGRESSING = '.status.conditions[?(@.type=="Progressing")]'

KINDS = (
    Kind(
        model=ModelDeployment,
        plural=names.DEPLOYMENT_PLURAL,
        short="mdep",
        scope="Namespaced",
        columns=(
            _column("Ready", "string", f"{_READY}.status", "Whether a request sent now would be answered."),
            _column("Replicas", "integer", ".status.scaling.lastDecision.to", "Replicas that are wanted."),
            _column("Serving", "integer", ".status.readyReplicas", "Replicas that serve."),
            _column("Layout", "string", ".status.plan.pools[0].layout", "How a replica is spread over accelerators."),
            _column("Why", "string", f"{_READY}.reason", "Why it is or is not ready; see docs/conditions.md."),
            _column("Progress", "string", f"{_PROGRESSING}.reason", "What is being done, or what stands in its way."),
            _column("Start", "integer", ".status.coldStart.progress.percent", "Percent of the coming replica's start."),
            _AGE,
            _column("Class", "string", ".status.plan.pools[0].class", "The AcceleratorClass that is used first.", 1),
            _column("Message", "string", f"{_READY}.message", "The reason in a sentence.", 1),
        ),
        subresources={
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.scaling.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
    ),
    Kind(
        model=AcceleratorClass,
        plural=names.CLASS_PLURAL,
        short="accel",
        scope="Cluster",
        columns=(
            _column("Resource", "string", ".spec.resourceName", "The name under which nodes offer the accelerator."),
            _column("Per-Node", "integer", ".spec.acceleratorsPerNode", "Accelerators in one node."),
            _column("Device", "string", ".spec.device", "What the engine runs on; empty is Cuda."),
            _column("Memory", "string", ".spec.memory", "Memory of one accelerator; empty: nothing is predicted."),
            _column("Price", "string", _PRICE, "What one accelerator costs an hour, of the first supply."),
            _AGE,
        ),
    ),
    Kind(
        model=ModelProfile,
        plural=names.PROFILE_PLURAL,
        short="mprof",
        scope="Namespaced",
        columns=(
            _column("Source", "string", ".spec.source", "Where the model's weights are."),
            _column("Class", "string", ".spec.class", "The AcceleratorClass that it was measured on."),
            _column("Layout", "string", ".spec.layout", "How a replica was spread over accelerators."),
            _column("Weights", "string", ".spec.quantization.weights", "How weights were stored."),
            _AGE,
        ),
    ),
)


def crd(kind: Kind) -> Schema:
    """The CustomResourceDefinition of a kind, as the API server takes it."""
    singular = kind.model.__name__.lower()
    version = {
        "name": names.VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema(kind.model)},
        "additionalPrinterColumns": [dict(column) for column in kind.columns],
    }
    version |= {"subresources": dict(kind.subresources)} if kind.subresources else {}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{names.GROUP}"},
        "spec": {
            "group": names.GROUP,
            "names": {
                "kind": kind.model.__name__,
                "listKind": f"{kind.model.__name__}List",
                "plural": kind.plural,
                "singular": singular,
                "shortNames": [kind.short],
            },
            "scope": kind.scope,
            "versions": [version],
        },
    }


def schema(model: type[ApiModel]) -> Schema:
    """The structural schema of a kind. Raises TypeError, with the path, for what a structural schema cannot say."""
    generated = model.model_json_schema(by_alias=True, schema_generator=_Generator)
    definitions = generated.pop("$defs", {})
    del generated["properties"]["metadata"]  # the API server knows it better
    root = _Structural(definitions, {each.__name__: each for each in _models(model)}).convert(
        generated, model.__name__, (model.__name__,)
    )
    validations = [_validation(rule) for rule in rules.rows(model)]
    root |= {"x-kubernetes-validations": validations} if validations else {}
    root["properties"] = {
        "apiVersion": {"type": "string", "maxLength": 64, "description": f"Always {names.API_VERSION}."},
        "kind": {"type": "string", "maxLength": 64, "description": f"Always {model.__name__}."},
        "metadata": {"type": "object"},
    } | root["properties"]
    root["required"] = ["spec"]
    return root


class _Generator(GenerateJsonSchema):
    """pydantic's generator, without what structural schemas do not know."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        """An optional field is absent, never null."""
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Defaults live in the code; one that the server must store is asked for by the field."""
        return self.generate_inner(schema["schema"])

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        """A map whose keys' form becomes rules on the map: structural schemas have no propertyNames."""
        keys, values = self.generate_inner(schema["keys_schema"]), self.generate_inner(schema["values_schema"])
        result: Schema = {"type": "object", "additionalProperties": values}
        self.update_with_validations(result, schema, self.ValidationsMapping.object)
        longest = keys["maxLength"]
        result["x-kubernetes-validations"] = [
            {"rule": f"self.all(key, key.size() <= {longest})", "message": f"a key has at most {longest} characters"},
            *(
                each | {"rule": f"self.all(key, {each['rule'].replace('self', 'key')})"}
                for each in keys.get("x-kubernetes-validations", ())
            ),
        ]
        return result


def _models(annotation: Any) -> set[type[ApiModel]]:
    found: set[type[ApiModel]] = set()
    pending: list[Any] = [annotation]
    while pending:
        part = pending.pop()
        if isinstance(part, type) and issubclass(part, ApiModel) and part not in found:
            found.add(part)
            pending += [each.annotation for each in part.model_fields.values()]
        pending += getattr(part, "__args__", ())
    return found


@dataclass(frozen=True)
class _Structural:
    """Turns generated schemas into structural ones."""

    definitions: Mapping[str, Schema]
    models: Mapping[str, type[ApiModel]]

    def convert(self, node: Schema, path: str, above: tuple[str, ...]) -> Schema:
        """The structural form of `node`; `above` are the models that it stands in."""
        node, above = self._inlined(node, path, above)
        self._tidy(node)
        if "anyOf" in node or "oneOf" in node or "allOf" in node:
            raise TypeError(f"{path}: a union is not structural; use optional fields and a rule")
        node = {key: value for key, value in node.items() if key not in _DROPPED}
        if "properties" in node:
            node["properties"] = {
                name: self.convert(part, f"{path}.{name}", above) for name, part in node["properties"].items()
            }
        if "items" in node:
            node["items"] = self.convert(node["items"], f"{path}[]", above)
        if "additionalProperties" in node:
            node["additionalProperties"] = self.convert(node["additionalProperties"], f"{path}{{}}", above)
        _check(node, path)
        return node

    def _inlined(self, node: Schema, path: str, above: tuple[str, ...]) -> tuple[Schema, tuple[str, ...]]:
        node = dict(node)
        while "$ref" in node:
            name = node.pop("$ref").rpartition("/")[2]
            if name in above:
                raise TypeError(f"{path}: {name} contains itself")
            above = (*above, name)
            node = {**self.definitions[name], **node}
            if name in self.models:
                self._add_rules(node, self.models[name])
        return node, above

    def _add_rules(self, node: Schema, model: type[ApiModel]) -> None:
        exempt = {rule.field for rule in rules.declared(model)}
        required = [name for name in node.get("required", ()) if name not in exempt]
        node.pop("required", None)
        node |= {"required": required} if required else {}
        validations = [_validation(rule) for rule in rules.rows(model)]
        node |= {"x-kubernetes-validations": validations} if validations else {}

    def _tidy(self, node: Schema) -> None:
        if "description" in node:
            node["description"] = " ".join(node["description"].split())
        if node.get("type") == "integer":
            node["format"] = "int32" if node.get("maximum", _INT32_MAX + 1) <= _INT32_MAX else "int64"
        if node.get("format") == "date-time":
            node["maxLength"] = 64
        if not isinstance(node.get("additionalProperties", {}), dict):
            del node["additionalProperties"]


def _bounds() -> Mapping[str, Callable[[Schema], bool]]:
    return {
        "array": lambda node: "maxItems" in node,
        "object": lambda node: "properties" in node or "maxProperties" in node,
        "string": lambda node: "maxLength" in node or "enum" in node,
        "integer": lambda node: True,
        "boolean": lambda node: True,
    }


def _check(node: Schema, path: str) -> None:
    if node.get("x-kubernetes-int-or-string"):
        return
    if "type" not in node:
        raise TypeError(f"{path}: no type")
    bounded = _bounds().get(node["type"])
    if bounded is None or not bounded(node):
        raise TypeError(f"{path}: unbounded {node['type']}")


def _validation(rule: Rule[Any]) -> Schema:
    said = {"message": rule.message} if isinstance(rule.message, str) else {"messageExpression": rule.message.cel}
    known = rule.field and not rule.field.startswith("metadata")  # a fieldPath must be in our schema
    place = {"fieldPath": f".{rule.field}"} if known else {}
    return {"rule": rule.cel, **said, **place, "reason": rule.code.value}
