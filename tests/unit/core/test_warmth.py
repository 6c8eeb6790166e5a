"""What the operator knows of what nodes hold, from what pods tell, and where the next replica goes for it."""

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from builders import START, Raw
from modelfleet.cli.explain_zero import to_zero_lines
from modelfleet.core.effects import Lift
from modelfleet.core.placement.kept_on import Kept
from modelfleet.core.placement.project import pinned_node
from modelfleet.core.placement.want import Warm
from modelfleet.core.plan import Plan
from modelfleet.core.scaling.reading import Reading
from modelfleet.core.scaling.reading import Start as WorkerStart
from modelfleet.core.scaling.samples import PodSamples, Samples
from modelfleet.core.snapshot import World
from modelfleet.core.warmth import MOST_KEYS, MOST_NODES, OnNode, read_warmth, warm_for, warmth_entry
from planner_worlds import PlannedFleet
from weight_worlds import CACHE, fetching, plan_json, planned_by, workers

STATE = ("ConfigMap", "chat-state")
MACHINES = ("node-a", "node-b", "node-c")


class Told(PlannedFleet):
    """A fleet whose workers say what came of compiled code, and whose nodes tell what they keep."""

    compiled = ""
    kept: dict[str, Kept] | None = None

    def world(self) -> World:
        starts = WorkerStart(compiled=self.compiled)
        pods = {
            item["metadata"]["uid"]: PodSamples(
                uid=item["metadata"]["uid"],
                name=item["metadata"]["name"],
                revision="",
                readings=(Reading(pod_uid=item["metadata"]["uid"], at_s=0.0, start=starts),),
            )
            for item in self.pods().values()
        }
        seen = super().world()
        assert seen.cluster is not None
        nodes = (replace(node, kept=self.kept or {}) for node in seen.cluster.nodes)
        cluster = replace(seen.cluster, nodes=tuple(nodes))
        return replace(seen, cluster=cluster, samples=Samples(at_s=0.0, pods=pods))


def fleet(**cache: Any) -> Told:
    """On three nodes with a cache, one replica that fetched its weights."""
    base = fetching(cache={**CACHE, **cache})
    told = Told(**{name: getattr(base, name) for name in ("deployment", "classes", "words")}, machines=MACHINES)
    planned_by(told)
    told.tick()
    told.tick()
    fetch(told)
    told.reconcile()
    return told


def fetch(of: Told) -> None:
    for pod in workers(of):
        if pod["spec"].get("nodeName"):
            ended = {"exitCode": 0, "finishedAt": of.now.isoformat()}
            pod["status"]["initContainerStatuses"] = [{"name": "fetch", "state": {"terminated": ended}}]


def known(of: Told) -> Raw:
    told: Raw = json.loads(of.objects[STATE]["data"].get("warmth.json", "{}"))
    return told.get("nodes", {})


def weights_key(of: Told) -> str:
    return str(plan_json(of)["weights"]["key"])


def compiled_key(of: Told) -> str:
    return str(plan_json(of)["compiled"]["key"])


def lose(of: Told) -> None:
    """Its pod is gone, as at zero, and nothing tells any more."""
    (pod,) = workers(of)
    del of.objects["Pod", pod["metadata"]["name"]]


def move(of: Told, node: str) -> None:
    """As if the pod had been on this node."""
    data = of.objects[STATE]["data"]
    data["warmth.json"] = data["warmth.json"].replace("node-a", node)


def next_node(of: Told) -> str:
    """The node that the next replica is pinned to."""
    of.reconcile()
    of.reconcile()
    (pod,) = workers(of)
    return pinned_node(pod)


def test_a_fetch_that_ended_well_says_that_the_node_has_the_weights() -> None:
    of = fleet()
    assert {name: on["weights"] for name, on in known(of).items()} == {"node-a": [weights_key(of)]}
    assert known(of)["node-a"]["compiled"] == []


@pytest.mark.parametrize(
    ("says", "there"),
    [
        pytest.param("Taken", True, id="it took what was kept"),
        pytest.param("Kept", True, id="it keeps its own"),
        pytest.param("Damaged", False, id="what was there is thrown away"),
        pytest.param("Nothing", False, id="it found nothing"),
        pytest.param("", True, id="a worker that says nothing changes nothing"),
    ],
)
def test_compiled_code_is_where_a_worker_says_so(says: str, there: bool) -> None:
    of = fleet()
    of.compiled = "Kept"
    of.reconcile()
    of.compiled = says
    of.reconcile()
    assert known(of)["node-a"]["compiled"] == ([compiled_key(of)] if there else [])


def test_what_is_known_is_written_once() -> None:
    of = fleet()
    of.compiled = "Kept"
    of.reconcile()
    assert not of.reconcile().effects
    of.now += timedelta(seconds=600)
    assert not of.reconcile().effects


def test_a_model_that_comes_back_goes_where_its_weights_are() -> None:
    of = fleet()
    lose(of)
    move(of, "node-c")
    assert next_node(of) == "node-c"
    assert list(known(of)) == ["node-c"]
    *_, said = [effect.patch["metadata"]["annotations"] for effect in of.written[-5:] if isinstance(effect, Lift)]
    assert said["modelfleet.dev/placement"].endswith("; its weights are there")


@pytest.mark.parametrize(
    ("seconds", "kept", "goes"),
    [
        pytest.param(60, frozenset(), "node-a", id="a later fetch there lists it no more"),
        pytest.param(60, None, "node-c", id="a later fetch there lists it"),
        pytest.param(-3600, frozenset(), "node-c", id="an earlier fetch did not have it yet"),
    ],
)
def test_weights_that_another_models_fetch_evicted_are_forgotten(
    seconds: float, kept: frozenset[str] | None, goes: str
) -> None:
    of = fleet()
    lose(of)
    move(of, "node-c")
    listed = frozenset({weights_key(of)}) if kept is None else kept
    at = of.now + timedelta(seconds=seconds)
    of.kept = {"team": Kept(at, listed, frozenset()), "another": Kept(at, frozenset(), frozenset())}
    of.now += timedelta(seconds=120)
    assert next_node(of) == goes


def test_a_node_that_is_gone_and_one_that_nobody_used_for_too_long_are_forgotten() -> None:
    of = fleet()
    lose(of)
    of.now += timedelta(hours=23)
    of.reconcile()
    assert list(known(of)) == ["node-a"]
    of.now += timedelta(hours=2)
    of.reconcile()
    assert known(of) == {}

    gone = fleet()
    lose(gone)
    gone.machines = ("node-b",)
    gone.reconcile()
    assert known(gone) == {}


def test_while_a_pod_lives_there_its_node_is_not_forgotten() -> None:
    of = fleet()
    of.now += timedelta(hours=30)
    of.reconcile()
    assert known(of)["node-a"]["at"] == of.now.isoformat()


def test_the_status_and_explain_say_on_how_many_nodes_a_start_is_shorter() -> None:
    of = fleet()
    of.compiled = "Kept"
    spec = of.deployment["spec"]
    spec["scaling"] |= {"minReplicas": 0, "toZero": {"after": "2m", "firstCallerWaits": "5m"}}
    spec["objectives"][0]["firstCaller"] = "Excused"
    of.reconcile()
    lose(of)
    of.reconcile()
    of.reconcile()
    assert of.deployment["status"]["coldStart"]["warmNodes"] == {"weights": 1, "compiledCode": 1}
    said = " ".join("\n".join(to_zero_lines(of.deployment["status"])).split())
    assert "A start finds its weights on 1 node, and what its engine compiled on 1 node" in said


def test_nothing_is_remembered_where_nodes_keep_nothing() -> None:
    base = fetching()
    of = Told(deployment=base.deployment, classes=base.classes, words=base.words)
    planned_by(of)
    of.tick()
    fetch(of)
    of.compiled = "Kept"
    of.reconcile()
    assert "warmth.json" not in of.objects[STATE]["data"]


def test_what_is_kept_survives_being_written_and_read() -> None:
    there = {"a": OnNode(START, ("w",), ("c",)), "b": OnNode(START, ("w",))}
    assert read_warmth(warmth_entry(there)) == there
    many = {f"n{index}": OnNode(START, ("w",)) for index in range(MOST_NODES + 5)}
    assert len(read_warmth(warmth_entry(many))) == MOST_NODES
    assert read_warmth(
        {"nodes": {"a": {"at": "soon"}, "b": 3, "c": {"at": START.isoformat(), "weights": [1] * 99}}}
    ) == {"c": OnNode(START, ("1",) * MOST_KEYS)}


def plans(of: Told) -> Plan:
    (revision,) = (item for (kind, _), item in of.objects.items() if kind == "ControllerRevision")
    return Plan.model_validate(revision["data"]["plan"])


def test_a_plan_from_before_compiled_code_was_kept_has_its_pods_as_they_were() -> None:
    of = fleet()
    stored = next(item for (kind, _), item in of.objects.items() if kind == "ControllerRevision")
    del stored["data"]["plan"]["compiled"]
    before = plans(of)
    assert (before.compiled, before.compiled_key) == (False, "")
    assert warm_for(before, {"n": OnNode(START, (before.store_key,), ("",))}) == Warm(
        weights=frozenset({"n"}), image=before.image
    )
    name = workers(of)[0]["metadata"]["name"]
    of.deployment["spec"]["scaling"] |= {"mode": "Manual", "replicas": 2}
    of.reconcile()
    later = next(pod for pod in workers(of) if pod["metadata"]["name"] != name)
    mounts = [mount["mountPath"] for mount in later["spec"]["containers"][0]["volumeMounts"]]
    assert "/models/compiled" not in mounts


@pytest.mark.parametrize(
    ("model", "args"),
    [
        pytest.param({}, {"enforce-eager": "true"}, id="nothing is compiled"),
        pytest.param({"remoteCode": "Allow"}, {}, id="the model's own code could write what others load"),
        pytest.param({"pickledWeights": "Allow"}, {}, id="so could pickles"),
    ],
)
def test_compiled_code_is_not_kept_where_that_is_of_no_use_or_not_safe(model: Raw, args: Raw) -> None:
    base = fetching(cache=CACHE)
    base.deployment["spec"]["model"] |= model
    base.deployment["spec"]["engine"] = {"args": args}
    assert "compiled" not in plan_json(planned_by(base))


def test_what_the_engine_compiles_is_named_by_model_class_and_settings() -> None:
    keys = set()
    for change in (
        {},
        {"engine": {"args": {"max-num-seqs": 8}}},
        {"model": {"endpoint": "https://mirror.example.com"}},
    ):
        base = fetching(cache=CACHE)
        for part, value in change.items():
            base.deployment["spec"][part] = {**base.deployment["spec"].get(part, {}), **value}
        keys.add(plan_json(planned_by(base))["compiled"]["key"])
    assert len(keys) == 3
