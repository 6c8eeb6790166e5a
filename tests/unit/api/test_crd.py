"""The generated definitions: what a structural schema must be, and what it must not."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field

from modelfleet.api import crd
from modelfleet.api.kubernetes_types import Metadata
from modelfleet.api.schema import ApiModel
from modelfleet.cli.crds import text

REPOSITORY = Path(__file__).parents[3]


def nodes(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, part in schema.get("properties", {}).items():
        yield from nodes(part, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from nodes(schema[key], f"{path}[]")


ALL = [(path, node) for kind in crd.KINDS for path, node in nodes(crd.schema(kind.model), kind.model.__name__)]


@pytest.mark.parametrize("folder", ["crds", "charts/modelfleet/crds"])
@pytest.mark.parametrize("kind", crd.KINDS, ids=lambda kind: kind.plural)
def test_the_files_are_what_the_models_say(kind: crd.Kind, folder: str) -> None:
    assert (REPOSITORY / folder / kind.file_name).read_text() == text(kind), "run `make generate`"


def test_every_field_is_documented() -> None:
    undocumented = [
        path for path, node in ALL if not path.endswith(("[]", ".metadata")) and not node.get("description")
    ]

    assert undocumented == []


def test_no_node_is_a_reference_a_union_or_a_null() -> None:
    forbidden = {"$ref", "$defs", "anyOf", "oneOf", "allOf", "const", "title", "nullable", "propertyNames"}

    assert [(path, forbidden & node.keys()) for path, node in ALL if forbidden & node.keys()] == []


def test_the_server_stores_one_default_and_shows_one_before_there_is_a_status() -> None:
    assert [(path, node["default"]) for path, node in ALL if "default" in node] == [
        ("ModelDeployment.spec.scaling.replicas", 1),
        ("ModelDeployment.status", {"observedGeneration": -1}),
    ]


def test_only_what_rules_report_is_missing_from_the_required_fields_of_an_objective() -> None:
    (objective,) = [node for path, node in ALL if path == "ModelDeployment.spec.objectives[]"]
    needed = {
        rule["fieldPath"] for rule in objective["x-kubernetes-validations"] if rule["reason"] == "FieldValueRequired"
    }

    assert objective["required"] == ["name"]
    assert needed == {".ttft", ".tpot", ".load", ".lengths"}


class Recursive(ApiModel):
    inner: "Recursive | None" = None


class Union(ApiModel):
    either: Annotated[int, Field(le=5)] | Annotated[str, Field(max_length=5)]


class EndlessText(ApiModel):
    text: str


class EndlessList(ApiModel):
    items: tuple[Annotated[str, Field(max_length=5)], ...]


class EndlessMap(ApiModel):
    entries: dict[Annotated[str, Field(max_length=5)], Annotated[str, Field(max_length=5)]]


class Anything(ApiModel):
    anything: Any


@pytest.mark.parametrize(
    ("inner", "words"),
    [
        pytest.param(Recursive, "spec.inner: Recursive contains itself", id="a model in itself"),
        pytest.param(Union, "spec.either: a union is not structural", id="a union"),
        pytest.param(EndlessText, "spec.text: unbounded string", id="a text without an end"),
        pytest.param(EndlessList, "spec.items: unbounded array", id="a list without an end"),
        pytest.param(EndlessMap, "spec.entries: unbounded object", id="a map without an end"),
        pytest.param(Anything, "spec.anything: no type", id="a value of any type"),
    ],
)
def test_what_a_structural_schema_cannot_say_is_refused_with_its_path(inner: type[ApiModel], words: str) -> None:
    namespace = {"__annotations__": {"metadata": Metadata, "spec": inner}, "__module__": __name__}
    kind = type("Kind", (ApiModel,), namespace)

    with pytest.raises(TypeError, match=words):
        crd.schema(kind)
