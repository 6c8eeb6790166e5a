"""The fuzzer itself: it knows every field and kind, finds what is planted, repeats a seed and makes a failure small."""

import copy
import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from random import Random
from typing import Any

import pytest
import soak
from fuzz_checks import check
from fuzz_mutations import grow, spoil
from fuzz_run import Clock, run
from fuzz_shrink import shrink
from fuzz_values import examples, forms, models
from fuzz_worlds import Case, case, loose, promised

from builders import Fleet, manual
from modelfleet.api import crd
from modelfleet.api.acceleratorclass import AcceleratorClass
from modelfleet.api.modeldeployment import ModelDeployment
from modelfleet.controller.resources import resource_of
from modelfleet.core.effects import Apply, Create, Delete, Event, Outcome
from modelfleet.core.reconcile import plan
from modelfleet.core.snapshot import World

FIELDS = [field for kind in crd.KINDS for model in models(kind.model) for field in model.model_fields.values()]


def test_every_form_of_a_string_in_the_api_has_an_example() -> None:
    """A new class of strings needs a row in the table of good objects (tests/api_cases.py) that has one."""
    without = {form.__name__ for field in FIELDS for form in forms(field.annotation) if not examples(form)}
    assert without == set()


@pytest.mark.parametrize("kind", [ModelDeployment, AcceleratorClass])
def test_every_field_of_a_spec_is_set_sooner_or_later(kind: Any) -> None:
    rng, spec = Random(1), kind.model_fields["spec"].annotation
    seen: set[str] = set()
    raw: dict[str, Any] = {}
    for _ in range(4000):
        grow(rng, raw, spec)
        seen |= _keys(raw)
    assert {alias for model in models(spec) for alias in model.aliases()} <= seen


def _keys(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(_keys, value.values()))
    return set().union(*map(_keys, value)) if isinstance(value, list) and value else set()


def test_every_kind_that_the_gatherer_reads_is_generated() -> None:
    made = [case(seed) for seed in range(60)]
    generated = {resource_of(item["apiVersion"], item["kind"]).plural for one in made for item in one.objects}
    with closing(Clock()) as loop:
        read = set().union(*(run(one, loop).cluster.kinds for one in made))
    assert len(read) >= 5
    assert read <= generated, "give fuzz_worlds.py these kinds too"


@pytest.mark.parametrize("make", [case, loose])
def test_a_seed_is_a_world_and_another_seed_another(make: Callable[[int], Case]) -> None:
    assert make(7).text() == make(7).text()
    assert make(7).text() != make(8).text()
    assert Case(**json.loads(make(7).text())) == make(7)


def test_a_world_for_the_gatherer_keeps_what_the_server_promises() -> None:
    rng, item = Random(2), copy.deepcopy(case(3).deployment)
    before = copy.deepcopy(item["metadata"])
    for _ in range(300):
        spoil(rng, item, promised)
    assert (item["metadata"], item["kind"]) == (before, "ModelDeployment")


def test_a_failure_is_made_small() -> None:
    def fails(world: Case) -> None:
        assert not any(item["kind"] == "Lease" for item in world.objects), "there is a lease"

    seed = next(seed for seed in range(200) if any(item["kind"] == "Lease" for item in case(seed).objects))
    small = shrink(case(seed), fails, 10.0)
    assert [item["kind"] for item in small.objects] == ["ModelDeployment", "Lease"]
    assert len(small.text()) < 1200


def test_a_failure_is_told_with_its_seed_and_ends_the_run_with_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert soak.main(["--seed=5", "--worlds=2"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("seed 7: ")
    assert said.endswith("soak: ok\n")


def settled() -> tuple[World, Outcome]:
    """A fleet about to be rolled out, and the sound decision about it."""
    fleet = Fleet(manual(1))
    fleet.settle()
    fleet.deployment["spec"]["engine"] = {"image": "registry.example/worker:2"}
    world = fleet.world()
    return world, plan(world)


WORLD, SOUND = settled()
POD = next(e.manifest for e in SOUND.effects if isinstance(e, Create) and e.manifest["kind"] == "Pod")
STATUS = SOUND.status
OWNER = POD["metadata"]["ownerReferences"][0]
THEIRS = {"kind": "Pod", "metadata": {"name": "theirs", "uid": "u-theirs"}}


def doing(effect: Any) -> Outcome:
    return replace(SOUND, effects=(*SOUND.effects, effect))


def creating(**metadata: Any) -> Outcome:
    return doing(Create({**POD, "metadata": {**POD["metadata"], **metadata}}))


def saying(**changes: Any) -> Outcome:
    return replace(SOUND, status={**STATUS, **changes})


def test_a_sound_decision_passes() -> None:
    check(WORLD, SOUND)


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        pytest.param(creating(namespace="other"), "goes to namespace other", id="another namespace"),
        pytest.param(creating(name="a" * 64), "has the name", id="a name that is too long"),
        pytest.param(creating(labels={"a": "b c"}), "has label", id="a label that is none"),
        pytest.param(
            creating(ownerReferences=[{"uid": "x", "name": "chat", "controller": True}]), "owned by", id="owner"
        ),
        pytest.param(doing(Create({**POD, "spec": {"n": 2**63}})), "holds the number", id="a number that is too large"),
        pytest.param(doing(Create({**POD, "kind": "Node"})), "a Node is written", id="a kind that is not ours"),
        pytest.param(doing(Apply(POD, "")), "without a uid", id="an apply without a uid"),
        pytest.param(doing(Delete("v1", "Node", "x", "u")), "a Node is deleted", id="the deletion of a node"),
        pytest.param(doing(Delete("v1", "Pod", "x", "u")), "was never seen", id="the deletion of what was not seen"),
        pytest.param(doing(Delete("v1", "Pod", "theirs", "u-theirs")), "is not ours", id="a foreign pod deleted"),
        pytest.param(replace(SOUND, wake_after_s=0.0), "looks again", id="a busy loop"),
        pytest.param(saying(selector=None), "", id="a null in the status"),
        pytest.param(saying(replicas=2**31), "", id="a number that the schema does not take"),
        pytest.param(saying(conditions=STATUS["conditions"][1:]), "", id="a condition that is missing"),
        pytest.param(
            saying(conditions=[{**told, "message": ""} for told in STATUS["conditions"]]), "", id="a silent condition"
        ),
        pytest.param(replace(SOUND, events=(Event("Normal", "Nonsense", "x"),)), "reason is Nonsense", id="an event"),
    ],
)
def test_a_broken_promise_is_noticed(outcome: Outcome, words: str) -> None:
    with pytest.raises((AssertionError, ValueError)) as raised:
        check(replace(WORLD, pods=(*WORLD.pods, THEIRS)), outcome)
    assert words in str(raised.value)
