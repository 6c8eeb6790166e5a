"""`modelfleet schema`: what an editor is told, against the table of good and bad objects."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from api_cases import BAD, GOOD
from api_objects import Bad, Good
from modelfleet.api import crd
from modelfleet.cli.main import main
from modelfleet.cli.schema import json_schema, schemas

SCHEMAS = Path(__file__).parents[3] / "docs" / "schemas"
VALIDATORS = {kind.model.__name__: jsonschema.Draft7Validator(json_schema(kind)) for kind in crd.KINDS}
SHAPES = [case for case in BAD if case.server and case.server != case.says and "stands here twice" not in case.says]
"""Faults of shape: not a rule but the server's schema tells them, so it does not answer with our sentence. An editor
sees them too. The others are rules between fields and forms of a string in CEL: `lint` and the API server tell them."""

DECLARED = [
    "no ttft",
    "no tpot",
    "no load",
    "no lengths",
    "an end-to-end latency besides",
    "a served name twice",
    "a served name with a space",
    "a variable that nobody checked",
    "a variable on two lines",
    "an image with a space",
]
"""Rules that a schema can say after all."""


def valid(case: Good | Bad) -> bool:
    return VALIDATORS[case.manifest["kind"]].is_valid(case.manifest)


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case.id)
def test_a_good_object_passes(case: Good) -> None:
    assert list(VALIDATORS[case.manifest["kind"]].iter_errors(case.manifest)) == []


@pytest.mark.parametrize("case", SHAPES, ids=lambda case: case.id)
def test_a_fault_of_shape_is_seen(case: Bad) -> None:
    assert not valid(case)


@pytest.mark.parametrize("name", DECLARED)
def test_what_is_required_or_refused_with_a_reason_is_seen_too(name: str) -> None:
    (case,) = (case for case in BAD if case.id == name)
    assert not valid(case)


@pytest.mark.parametrize("validator", VALIDATORS.values(), ids=VALIDATORS)
def test_it_is_a_json_schema_and_speaks_of_every_field(validator: Any) -> None:
    jsonschema.Draft7Validator.check_schema(validator.schema)
    assert not _keys(validator.schema) & {"x-kubernetes-validations", "x-kubernetes-int-or-string", "format-int32"}
    assert [name for name, part in validator.schema["properties"].items() if not part.get("description")] == []


def _keys(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(_keys, value.values()))
    return set().union(*map(_keys, value)) if isinstance(value, list) and value else set()


def test_one_schema_takes_both_kinds_and_no_other() -> None:
    both = jsonschema.Draft7Validator(json.loads(schemas()["all"]))
    assert all(both.is_valid(case.manifest) for case in GOOD)
    assert not both.is_valid({**GOOD[0].manifest, "kind": "Deployment"})
    assert not any(both.is_valid(case.manifest) for case in SHAPES)


@pytest.mark.parametrize("name", sorted(schemas()))
def test_the_files_in_docs_are_what_the_models_say(name: str) -> None:
    assert (SCHEMAS / f"{name.lower()}.json").read_text() == schemas()[name], "run `make generate`"


@pytest.mark.parametrize("arguments", [[], ["ModelDeployment"], ["AcceleratorClass"], ["all"]])
def test_it_is_printed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", *arguments]) == 0
    assert capsys.readouterr().out == schemas()[arguments[0] if arguments else "all"]


def test_it_is_written_to_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "--output", str(tmp_path / "new")]) == 0
    assert {path.name for path in (tmp_path / "new").iterdir()} == {f"{name.lower()}.json" for name in schemas()}
    assert main(["schema", "ModelDeployment", "--output", str(tmp_path / "one")]) == 0
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["modeldeployment.json"]
    (tmp_path / "file").touch()
    assert main(["schema", "--output", str(tmp_path / "file")]) == 2
    assert capsys.readouterr().err.startswith("modelfleet: ")


def test_a_kind_that_is_none_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["schema", "Pod"])
    assert exit_.value.code == 2
    assert "ModelDeployment" in capsys.readouterr().err
