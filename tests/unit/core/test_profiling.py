"""What serving replicas teach: the ModelProfile that is written of them, and when it is not."""

from dataclasses import replace
from typing import Any

import pytest

from modelfleet.api import names
from modelfleet.api.parse import parse_class, parse_deployment, parse_profile
from modelfleet.core.described import stated
from modelfleet.core.effects import Note
from modelfleet.core.inputs import promised
from modelfleet.core.perf.cells import Cell, Cells
from modelfleet.core.perf.pace import course
from modelfleet.core.perf.steps import Batch, step_time
from modelfleet.core.plan import Plan, read
from modelfleet.core.profile_object import case_of, lengths_of
from modelfleet.core.reconcile import plan
from modelfleet.core.scaling.memory import Fault, Finding
from modelfleet.core.scaling.samples import PodSamples
from scaling_worlds import Sampled, sampled

DECODE, PREFILL = 1.3, 0.8
"""How much slower and faster than predicted the replicas of these stories are."""


def pinned(fleet: Sampled) -> Plan:
    (revision,) = (item for (kind, _), item in fleet.fleet.objects.items() if kind == "ControllerRevision")
    found = read(revision["data"]["plan"])
    assert found is not None
    return found


def steps_of(fleet: Sampled, decode: float = DECODE, prefill: float = PREFILL, count: float = 5000.0) -> Cells:
    """The steps of an engine whose times are the predicted ones times factors."""
    deployment: Any = parse_deployment(fleet.fleet.deployment)
    kind: Any = parse_class(fleet.fleet.classes["h100"])
    plan_ = pinned(fleet)
    case, lengths = case_of(plan_, kind, stated(deployment.spec.model.facts, "chat")), lengths_of(plan_)
    assert case is not None
    assert lengths is not None
    curve, cells = course(case, lengths), {}
    for sequences, tokens in ((1.0, 0.0), (8.0, 0.0), (30.0, 0.0), (8.0, 150.0), (30.0, 400.0)):
        context = lengths.input_tokens + lengths.output_tokens / 2
        alone = Batch(decode_sequences=sequences, decode_context_tokens=context)
        mixed = replace(alone, prefill_tokens=tokens)
        more_s = step_time(case, mixed).total_s - step_time(case, alone).total_s if tokens else 0.0
        time_s = decode * curve.decode_step_s(sequences) + prefill * more_s
        cells[str(sequences), str(tokens)] = Cell(
            steps=count, seconds=count * time_s, decode_sequences=count * sequences, prefill_tokens=count * tokens
        )
    return cells


def learn(fleet: Sampled, stored: tuple[dict[str, Any], ...] | None = (), **pods: Cells) -> list[Note]:
    """The notes of one reconcile in which pods tell of their steps; by default each the same."""
    world = fleet.world()
    assert world.samples is not None
    usual = steps_of(fleet)
    found: dict[str, PodSamples] = {}
    for uid, pod in world.samples.pods.items():
        readings = tuple(replace(each, kv_total_tokens=400_000) for each in pod.readings)
        found[uid] = replace(pod, steps=pods.get(uid, usual), readings=readings)
    outcome = plan(replace(world, samples=replace(world.samples, pods=found), profiles=stored))
    fleet.outcomes.append(outcome)
    return [each for each in outcome.effects if isinstance(each, Note)]


def stored(note: Note, uid: str = "p1") -> dict[str, Any]:
    """What the API server then has."""
    return {**note.manifest, "metadata": {**note.manifest["metadata"], "uid": uid}}


@pytest.fixture
def fleet() -> Sampled:
    return sampled().run(120, 3.0)


def test_steps_that_are_slower_than_predicted_are_written_with_their_count(fleet):
    (note,) = learn(fleet)
    spec = note.manifest["spec"]
    assert float(spec["stepTime"]["decode"]) == pytest.approx(DECODE, rel=0.03)
    assert float(spec["stepTime"]["prefill"]) == pytest.approx(PREFILL, rel=0.03)
    assert spec["stepTime"]["decodeSamples"] >= 20_000
    assert spec["kvCacheTokens"] == 400_000
    assert (spec["class"], spec["layout"]) == ("h100", "tp1")
    assert note.uid == ""


def test_what_is_written_is_a_profile_that_its_own_rules_accept(fleet):
    (note,) = learn(fleet)
    assert not isinstance(parse_profile(stored(note)), tuple)
    assert note.manifest["metadata"]["ownerReferences"][0]["controller"] is True


def test_the_same_again_writes_nothing(fleet):
    (note,) = learn(fleet)
    assert learn(fleet, (stored(note),)) == []


def test_noise_writes_nothing(fleet):
    (note,) = learn(fleet)
    uids = fleet.samples().pods
    noisy = dict.fromkeys(uids, steps_of(fleet, DECODE * 1.01, PREFILL * 0.99))
    assert learn(fleet, (stored(note),), **noisy) == []


def test_another_time_is_written_to_the_object_that_was_read(fleet):
    (note,) = learn(fleet)
    slower = dict.fromkeys(fleet.samples().pods, steps_of(fleet, DECODE * 1.2))
    (again,) = learn(fleet, (stored(note),), **slower)
    assert again.uid == "p1"
    assert float(again.manifest["spec"]["stepTime"]["decode"]) == pytest.approx(DECODE * 1.2, rel=0.03)


def test_an_object_of_that_name_that_is_somebody_elses_is_left_alone(fleet):
    (note,) = learn(fleet)
    own = stored(note)
    del own["metadata"]["ownerReferences"]
    assert learn(fleet, (own,), **dict.fromkeys(fleet.samples().pods, steps_of(fleet, 2.0))) == []


def test_nothing_is_written_where_it_is_not_the_time_to_look(fleet):
    assert learn(fleet, None) == []


def test_few_steps_teach_nothing(fleet):
    assert learn(fleet, **dict.fromkeys(fleet.samples().pods, steps_of(fleet, count=100.0))) == []


def test_of_three_replicas_a_slow_one_moves_nothing():
    fleet = sampled(minReplicas=3).run(120, 3.0)
    odd, *_ = fleet.samples().pods
    (note,) = learn(fleet, **{odd: steps_of(fleet, 5.0)})
    assert float(note.manifest["spec"]["stepTime"]["decode"]) == pytest.approx(DECODE, rel=0.03)


def test_a_replica_that_is_being_replaced_for_being_slow_does_not_count():
    fleet = sampled(minReplicas=2).run(120, 3.0)
    slow, *_ = fleet.samples().pods
    assert fleet.kept is not None
    fleet.kept = replace(
        fleet.kept, slow=Finding(fault=Fault.SLOW_REPLICA, about=slow, sentence="it is slow", at_s=fleet.kept.clock_s)
    )
    (note,) = learn(fleet, **{slow: steps_of(fleet, 5.0)})
    assert float(note.manifest["spec"]["stepTime"]["decode"]) == pytest.approx(DECODE, rel=0.03)


def sure(fleet: Sampled, knee_sure: float, log_knee: float = 0.2) -> None:
    """Requests taught the policy that a replica does more than planned."""
    assert fleet.kept is not None
    memory = replace(fleet.kept.ledger.memory, log_knee=log_knee, knee_sure=knee_sure)
    fleet.kept = replace(fleet.kept, ledger=replace(fleet.kept.ledger, memory=memory), evidence=12_000, looked_s=None)
    fleet.kept = replace(fleet.kept, looked_s=fleet.at_s)


def test_a_knee_that_requests_taught_is_written_for_the_promise_it_holds_for(fleet):
    sure(fleet, 200.0)
    (note,) = learn(fleet)
    knee, planned = note.manifest["spec"]["knee"], pinned(fleet).planned
    assert planned is not None
    assert float(knee["requestsPerSecond"]) == pytest.approx(planned.hosted.knee_rps * 1.2214, rel=0.01)
    assert (knee["uncertainty"], knee["samples"]) == ("12%", 10_000)
    assert knee["promise"] == promised(parse_deployment(fleet.fleet.deployment))  # type: ignore[arg-type]


def test_a_knee_that_is_no_better_known_than_planned_is_not_written(fleet):
    sure(fleet, 30.0)
    (note,) = learn(fleet)
    assert "knee" not in note.manifest["spec"]


def test_a_knee_that_was_written_stays_where_another_process_has_not_learned_it_yet(fleet):
    sure(fleet, 200.0)
    (note,) = learn(fleet)
    sure(fleet, 25.0, 0.0)
    slower = dict.fromkeys(fleet.samples().pods, steps_of(fleet, DECODE * 1.2))
    (again,) = learn(fleet, (stored(note),), **slower)
    assert again.manifest["spec"]["knee"] == note.manifest["spec"]["knee"]


def test_the_status_says_the_correction_its_confidence_and_where_it_is_kept(fleet):
    sure(fleet, 200.0)
    fleet.fleet.deployment["status"].pop("goodput", None)  # so that nothing is held
    learn(fleet)
    observed = fleet.outcomes[-1].status["plan"]["pools"][0]["observed"]
    assert (observed["stepTime"], observed["kneeUncertainty"]) == ("1.3", "12")
    assert observed["profile"].startswith("chat-observed-")
    assert observed["steps"] == 20_000


def test_names_of_long_deployments_stay_apart_and_short():
    one, other = (names.observed_profile("a" * 60 + end, "12345678") for end in ("b", "c"))
    assert one != other
    assert len(one) <= 63
