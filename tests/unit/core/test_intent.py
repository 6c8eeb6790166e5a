"""What is wanted: inputs of a plan, feasibility, replicas, row by row."""

from typing import Any

import pytest

from builders import SETTINGS, accelerator_class, condition, deployment, manual, world
from modelfleet.api.acceleratorclass import AcceleratorClass
from modelfleet.api.modeldeployment import ModelDeployment, Scaling
from modelfleet.api.parse import parse_class, parse_deployment
from modelfleet.api.status import ScalingDecision
from modelfleet.core.inputs import digest, plan_inputs
from modelfleet.core.plan import Plan, read
from modelfleet.core.planner import make_plan
from modelfleet.core.reconcile import plan
from modelfleet.core.replicas import ScalingReason, decide_replicas

Raw = dict[str, Any]


def parsed(of: Raw, kind: Raw) -> tuple[ModelDeployment, AcceleratorClass]:
    got, on = parse_deployment(of), parse_class(kind)
    assert isinstance(got, ModelDeployment), got
    assert isinstance(on, AcceleratorClass), on
    return got, on


def hashed(of: Raw | None = None, kind: Raw | None = None) -> str:
    return digest(plan_inputs(*parsed(of or deployment(), kind or accelerator_class())))


def planned(of: Raw, kind: Raw | None = None) -> Plan:
    return make_plan(*parsed(of, kind or accelerator_class()), SETTINGS, {})


TOLERATIONS = [{"key": "a", "operator": "Exists"}, {"key": "b", "value": "c", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(deployment(), manual(7), id="replicas and mode"),
        pytest.param(deployment(), deployment(scaling={"minReplicas": 3, "maxReplicas": 5}), id="bounds"),
        pytest.param(
            deployment(),
            deployment(objectives=[deployment()["spec"]["objectives"][0] | {"ttft": "9s"}]),
            id="objectives, which move no pod in this version",
        ),
        pytest.param(deployment(), deployment(parallelism={"tensor": 1}), id="a default that is spelled out"),
        pytest.param(deployment(), deployment(model={"servedNames": ["chat"]}), id="the default served name"),
        pytest.param(deployment(), deployment(model={"source": "pvc://models/tiny/"}), id="a trailing slash"),
        pytest.param(
            deployment(placement={"tolerations": TOLERATIONS}),
            deployment(placement={"tolerations": [{**TOLERATIONS[1], "operator": "Equal"}, *TOLERATIONS]}),
            id="order and repetition of tolerations",
        ),
        pytest.param(
            deployment(engine={"args": {"enforce-eager": ""}}),
            deployment(engine={"args": {"enforce-eager": "true"}}),
            id="two spellings of a switch",
        ),
        pytest.param(
            deployment(engine={"args": {"max-num-seqs": 64}}),
            deployment(engine={"args": {"max-num-seqs": "64"}}),
            id="a number with and without quotes",
        ),
        pytest.param(
            deployment(imagePullSecrets=[{"name": "a"}, {"name": "b"}]),
            deployment(imagePullSecrets=[{"name": "b"}, {"name": "a"}]),
            id="order of secrets",
        ),
    ],
)
def test_the_same_revision_for(one: Raw, other: Raw) -> None:
    assert hashed(one) == hashed(other)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(deployment(model={"source": "pvc://models/large"}), id="the model"),
        pytest.param(deployment(model={"servedNames": ["a", "b"]}), id="served names"),
        pytest.param(deployment(model={"maxContextTokens": 4096}), id="the context"),
        pytest.param(deployment(parallelism={"tensor": 2}), id="tensor"),
        pytest.param(deployment(engine={"image": "image:1"}), id="the image"),
        pytest.param(deployment(engine={"installationClaimName": "engine"}), id="the engine's claim"),
        pytest.param(deployment(engine={"args": {"max-num-seqs": 4}}), id="a flag"),
        pytest.param(deployment(engine={"env": [{"name": "OMP_NUM_THREADS", "value": "3"}]}), id="a variable"),
        pytest.param(deployment(placement={"nodeSelector": {"a": "b"}}), id="a node label"),
        pytest.param(deployment(placement={"tolerations": TOLERATIONS}), id="a toleration"),
        pytest.param(deployment(placement={"priorityClassName": "high"}), id="the priority"),
        pytest.param(deployment(imagePullSecrets=[{"name": "a"}]), id="a secret"),
    ],
)
def test_another_revision_for(other: Raw) -> None:
    assert hashed(other) != hashed()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"nodeSelector": {"x": "y"}}, id="node labels"),
        pytest.param({"resourceName": "nvidia.com/gpu"}, id="the resource"),
        pytest.param({"device": "Cuda"}, id="the device"),
        pytest.param({"hostPerAccelerator": {"cpu": "3"}}, id="host CPU"),
        pytest.param({"tolerations": []}, id="tolerations"),
    ],
)
def test_another_revision_for_another_class(change: Raw) -> None:
    assert hashed(kind=accelerator_class(**change)) != hashed()


def test_the_hash_of_a_plain_spec_never_changes() -> None:
    assert hashed().startswith("f8b9cfbc"), "another hash for the same spec rolls every fleet at an upgrade"


def test_a_plan_survives_being_stored() -> None:
    of = planned(deployment(placement={"tolerations": TOLERATIONS}, parallelism={"tensor": 2}))
    assert read(of.to_json()) == of
    assert read({**of.to_json(), "aFieldOfALaterVersion": 1}) == of


@pytest.mark.parametrize("damaged", [None, "plan", {}, [], {"image": 1}])
def test_what_is_no_plan_reads_as_none(damaged: Any) -> None:
    assert read(damaged) is None


def test_two_accelerators_take_twice_the_host() -> None:
    of = planned(
        deployment(parallelism={"tensor": 3}),
        accelerator_class(hostPerAccelerator={"cpu": "500m", "memory": "1Gi"}),
    )
    assert (of.host_cpu, of.host_memory, of.accelerators) == ("1500m", str(3 * 1024**3), 3)


def test_a_users_variable_wins_over_ours() -> None:
    of = planned(deployment(engine={"env": [{"name": "OMP_NUM_THREADS", "value": "7"}]}))
    assert of.engine_env == {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "7"}


BIG = accelerator_class("big", acceleratorsPerNode=16)


@pytest.mark.parametrize(
    ("of", "classes", "kind", "expected"),
    [
        pytest.param(
            deployment(scaling={"minReplicas": "two"}),
            [accelerator_class()],
            "Accepted",
            ("False", "SpecInvalid", 'spec.scaling.minReplicas: must be a whole number without quotes, not "two"'),
            id="a value of the wrong kind is named with its path",
        ),
        pytest.param(
            deployment(),
            [],
            "Accepted",
            (
                "False",
                "ClassNotFound",
                "spec.accelerators.classes[0]: there is no AcceleratorClass cpu; the cluster has none; create one",
            ),
            id="no class at all",
        ),
        pytest.param(
            deployment(accelerators={"classes": ["h100"]}),
            [accelerator_class(), BIG],
            "Accepted",
            (
                "False",
                "ClassNotFound",
                "spec.accelerators.classes[0]: there is no AcceleratorClass h100; the cluster has big, cpu",
            ),
            id="an unknown class, with the known ones",
        ),
        pytest.param(
            deployment(),
            [accelerator_class(acceleratorsPerNode=0)],
            "Accepted",
            ("False", "ClassInvalid", "AcceleratorClass cpu: spec.acceleratorsPerNode: must be at least 1"),
            id="a class that breaks a rule",
        ),
        pytest.param(
            deployment(placement={"nodeSelector": {"modelfleet.dev/accelerator": "gpu"}}),
            [accelerator_class()],
            "Accepted",
            (
                "False",
                "SpecInvalid",
                "spec.placement.nodeSelector[modelfleet.dev/accelerator]: is gpu, and class cpu has it as cpu, so no"
                " node fits both; leave it out, or choose another class",
            ),
            id="node labels that contradict the class",
        ),
        pytest.param(
            deployment(parallelism={"tensor": 8}),
            [accelerator_class(), BIG],
            "Planned",
            (
                "False",
                "TensorExceedsNode",
                "tensor parallelism stays inside a node: spec.parallelism.tensor is 8 and a node of class cpu has 4;"
                " the nearest that works is tensor 4, or a class with enough: big (16 a node)",
            ),
            id="more tensor than a node has, with the nearest that works",
        ),
    ],
)
def test_a_wish_that_cannot_be(of: Raw, classes: list[Raw], kind: str, expected: tuple[str, str, str]) -> None:
    outcome = plan(world(of, classes={one["metadata"]["name"]: one for one in classes}))
    assert condition(outcome.status, kind) == expected
    assert condition(outcome.status, "Ready") == expected
    assert not outcome.effects
    assert [(event.type, event.reason) for event in outcome.events if event.type == "Warning"] == [
        ("Warning", expected[1])
    ]


def scaling(**fields: Any) -> Scaling:
    return Scaling.model_validate({"minReplicas": 2, "maxReplicas": 5, **fields})


def by(manager: str, subresource: str = "scale") -> Raw:
    fields = {"f:spec": {"f:scaling": {"f:replicas": {}}}}
    return {"managedFields": [{"manager": manager, "subresource": subresource, "fieldsV1": fields}]}


@pytest.mark.parametrize(
    ("of", "metadata", "replicas", "bound", "ignored"),
    [
        pytest.param(scaling(mode="Manual", replicas=3), {}, 3, None, "", id="Manual takes replicas"),
        pytest.param(scaling(mode="Manual", replicas=9), {}, 5, "maxReplicas", "", id="Manual is clipped from above"),
        pytest.param(scaling(mode="Manual", replicas=0), {}, 2, "minReplicas", "", id="Manual is clipped from below"),
        pytest.param(scaling(), {}, 2, "minReplicas", "", id="Active holds minReplicas without a signal"),
        pytest.param(
            scaling(replicas=4),
            by("keda-operator"),
            2,
            "minReplicas",
            "replicas 4, written by keda-operator, is ignored: mode is Active; set mode Manual to scale by hand",
            id="a foreign scaler is named",
        ),
        pytest.param(
            scaling(replicas=1),
            by("kubectl"),
            2,
            "minReplicas",
            "replicas 1, written by kubectl, is ignored: mode is Active; set mode Manual to scale by hand",
            id="also if it wrote the default",
        ),
        pytest.param(
            scaling(replicas=4),
            by("kubectl", subresource=""),
            2,
            "minReplicas",
            "replicas 4 is ignored: mode is Active; set mode Manual to scale by hand",
            id="a number in the manifest is answered too",
        ),
        pytest.param(
            scaling(replicas=2), by("kubectl"), 2, "minReplicas", "", id="a wish that comes true is not ignored"
        ),
    ],
)
def test_decide_replicas(of: Scaling, metadata: Raw, replicas: int, bound: str | None, ignored: str) -> None:
    got = decide_replicas(of, metadata)
    assert (got.replicas, got.bound, got.ignored) == (replicas, bound, ignored)
    assert got.detail
    assert got.reason is (ScalingReason.MANUAL if of.mode == "Manual" else ScalingReason.NO_SIGNAL)


def test_the_last_decision_keeps_its_time_until_another_is_made() -> None:
    of = manual(2)
    first = plan(world(of)).status["scaling"]["lastDecision"]
    of["status"] = {"scaling": {"lastDecision": {**first, "at": "2020-01-01T00:00:00Z"}}}
    again = plan(world(of)).status["scaling"]["lastDecision"]
    assert again["at"] == "2020-01-01T00:00:00Z"
    of["spec"]["scaling"]["replicas"] = 3
    outcome = plan(world(of))
    changed = ScalingDecision.model_validate(outcome.status["scaling"]["lastDecision"])
    assert (changed.from_, changed.to, changed.detail) == (2, 3, "replicas is 3")
    assert ("Scaled", "from 2 to 3 replicas: replicas is 3") in {(e.reason, e.message) for e in outcome.events}
