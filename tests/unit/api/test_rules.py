"""The table of good and bad objects, in Python."""

import pytest

from api_cases import BAD, GOOD
from api_objects import Bad, Good, sentences_of
from modelfleet.api import crd
from modelfleet.api.acceleratorclass import AcceleratorClass
from modelfleet.api.modeldeployment import ModelDeployment
from modelfleet.api.modelprofile import ModelProfile
from modelfleet.api.parse import Fault, parse_class, parse_deployment, parse_profile, strict_faults
from modelfleet.api.rules import CHECKS

MODELS = {"ModelDeployment": ModelDeployment, "AcceleratorClass": AcceleratorClass, "ModelProfile": ModelProfile}
PARSE = {"ModelDeployment": parse_deployment, "AcceleratorClass": parse_class, "ModelProfile": parse_profile}


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case.id)
def test_a_good_object_is_taken(case: Good) -> None:
    assert strict_faults(MODELS[case.manifest["kind"]], case.manifest) == ()


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.id)
def test_a_bad_object_gets_one_sentence_at_its_field(case: Bad) -> None:
    faults = strict_faults(MODELS[case.manifest["kind"]], case.manifest)

    assert [(fault.path, fault.message) for fault in faults] == [(case.path, case.says)]


def test_every_rule_has_a_bad_object() -> None:
    said = " ".join(case.says for case in BAD)
    # A key's length is bounded twice: the server needs it as a rule, Python has it in the field.
    unsaid = {
        sentence
        for kind in crd.KINDS
        for sentence in sentences_of(crd.schema(kind.model))
        if sentence not in said and not sentence.startswith("a key has at most")
    }

    assert unsaid == set()


def test_the_ids_of_rules_are_unique() -> None:
    ids = [rule.id for rule in CHECKS]

    assert len(ids) == len(set(ids))


def test_one_bad_part_does_not_hide_what_is_wrong_with_the_others() -> None:
    manifest = {
        **GOOD[0].manifest,
        "spec": {**GOOD[0].manifest["spec"], "model": {}, "scaling": {"minReplicas": 3, "maxReplicas": 2}},
    }

    assert [fault.path for fault in strict_faults(ModelDeployment, manifest)] == [
        "spec.model.source",
        "spec.scaling.maxReplicas",
    ]


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case.id)
def test_the_operator_passes_over_fields_that_it_does_not_know(case: Good) -> None:
    manifest = {**case.manifest, "spec": {**case.manifest["spec"], "fromTheFuture": 1}, "status": {"conditions": "?"}}
    parse = PARSE[manifest["kind"]]

    assert not isinstance(parse(manifest), tuple)


def test_the_operator_refuses_what_an_old_crd_let_pass() -> None:
    case = next(case for case in BAD if case.id == "the flag api-key")

    parsed = parse_deployment(case.manifest)

    assert isinstance(parsed, tuple)
    assert [str(fault) for fault in parsed] == [f"{case.path}: {case.says}"]


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param({}, id="nothing at all"),
        pytest.param({"metadata": None, "spec": None}, id="nulls"),
        pytest.param({"metadata": [], "spec": "text"}, id="wrong kinds of values"),
        pytest.param({"metadata": {"name": "a"}, "spec": {"objectives": [None, 3, [], {"load": []}]}}, id="odd items"),
    ],
)
def test_nonsense_gives_faults_and_no_exception(raw: dict[str, object]) -> None:
    faults = parse_deployment(raw)

    assert isinstance(faults, tuple)
    assert all(isinstance(fault, Fault) and fault.message for fault in faults)
