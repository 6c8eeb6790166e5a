"""`modelfleet rollout preview`: the film of a change, from files."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from builders import accelerator_class, manual, merged
from cli_tables import Captured
from modelfleet.cli.main import main
from modelfleet.core.stage import START, Stage

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}


@pytest.fixture
def files(tmp_path: Path) -> Any:
    """Writes objects to files and gives the arguments that name them."""

    def write(**contents: Any) -> list[str]:
        arguments = []
        for name, content in contents.items():
            path = tmp_path / f"{name}.yaml"
            path.write_text(yaml.safe_dump(json.loads(json.dumps(content))))
            arguments += ["--state" if name == "state" else "-f", str(path)]
        return arguments

    return write


def preview(capsys: Captured, arguments: list[str]) -> tuple[int, list[str], str]:
    status = main(["rollout", "preview", *arguments])
    out, err = capsys.readouterr()
    return status, out.splitlines(), err


def applied(replicas: int, image: str) -> dict[str, Any]:
    """As a user writes it, without what a cluster adds."""
    made = manual(replicas, engine={"image": image})
    return {**made, "metadata": {"name": "chat", "namespace": "team"}}


def saved(replicas: int, nodes: int) -> dict[str, Any]:
    """What kubectl gives of a cluster on which so many replicas of image:1 serve."""
    offered = {"cpu": "64", "memory": "256Gi", "pods": "110", "modelfleet.dev/cpu": "1"}
    ready = [{"type": "Ready", "status": "True"}]
    labels = {"modelfleet.dev/accelerator": "cpu"}
    of = {
        f"node-{index}": {
            "kind": "Node",
            "metadata": {"name": f"node-{index}", "labels": labels},
            "status": {"allocatable": offered, "conditions": ready},
        }
        for index in range(nodes)
    }
    began = START - timedelta(days=1)  # they have served for long
    stage = Stage(manual(replicas, engine={"image": "image:1"}), {"cpu": accelerator_class()}, of, now=began)
    for _ in range(6):
        stage.happen(stage.reconcile().wake_after_s)
    other = {"kind": "Pod", "metadata": {"name": "other", "namespace": "team"}, "spec": {"nodeName": "node-0"}}
    items = [stage.deployment, accelerator_class(), other, *of.values(), *stage.objects.values()]
    return {"kind": "List", "apiVersion": "v1", "items": items}


def test_without_a_state_nothing_runs_and_there_are_nodes_in_plenty(files, capsys: Captured) -> None:
    status, told, _ = preview(capsys, files(deployment=applied(2, "image:1"), of=accelerator_class()))
    assert status == 0
    assert told[1:3] == [" 0 nothing is there", "   → creates a0; creates a1; places a0 on cpu-0; places a1 on cpu-0"]
    assert told[-2] == " 2 a0 a1 serve"


def test_from_a_state_only_the_change_is_told(files, capsys: Captured) -> None:
    status, told, err = preview(capsys, files(deployment=applied(2, "image:2"), state=saved(2, nodes=3)))
    assert (status, err) == (0, "")
    assert told[2:4] == [" 0 a0 a1 serve", "   → creates b0; places b0 on node-2"]
    assert told[-2].endswith(" b0 b1 serve")
    assert "Settled" in told[-1]


def test_a_full_cluster_is_told_with_what_is_lost(files, capsys: Captured) -> None:
    _, told, _ = preview(capsys, files(deployment=applied(2, "image:2"), state=saved(2, nodes=2)))
    assert "   → takes a1 out of the Service" in told
    assert any("at most 1 of 2 leave first" in line for line in told)


def test_a_state_where_nothing_changes_has_one_frame(files, capsys: Captured) -> None:
    _, told, _ = preview(capsys, files(deployment=applied(2, "image:1"), state=saved(2, nodes=2)))
    assert told[1:3] == [" 0 a0 a1 serve", "   Settled: 2 of 2 replicas of revision " + told[0].split()[-1] + " serve"]


@pytest.mark.parametrize("layout", [{"tensor": 1}, {"tensor": 1, "pipeline": 2}], ids=["single pods", "groups"])
def test_an_autoscaler_brings_what_is_asked_for(files, capsys: Captured, layout: dict[str, int]) -> None:
    supply = {"name": "cloud", "provisioning": "Autoscaled", "nodeSelector": {"pool": "cloud"}}
    kind = accelerator_class(acceleratorsPerNode=1, supplies=[supply], topologyKeys=["example.com/block"])
    small = {
        "kind": "Node",
        "metadata": {"name": "small"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    deployment = merged(applied(2, "image:1"), {"spec": {"parallelism": layout}})
    _, told, _ = preview(capsys, files(deployment=deployment, of=kind, state={"kind": "List", "items": [small]}))
    assert told[-2].strip() == "2 a0 a1 serve"
    assert len(told) < 12


def test_a_class_of_the_catalogue_needs_the_model_s_config(files, capsys: Captured) -> None:
    of = merged(applied(1, "image:1"), {"spec": {"accelerators": {"classes": ["h100-sxm"]}}})
    _, told, _ = preview(capsys, files(deployment=of))
    assert told[-1].endswith("give the model's config.json with another -f, or write spec.model.facts.")
    _, told, _ = preview(capsys, files(deployment=of, config=CONFIG))
    assert told[-2].strip() == "2 a0 serves"


def test_a_state_without_nodes_says_that_they_are_made_up(files, capsys: Captured) -> None:
    state = saved(2, nodes=2)
    state["items"] = [item for item in state["items"] if item["kind"] != "Node"]
    status, told, _ = preview(capsys, files(deployment=applied(2, "image:2"), state=state))
    assert status == 0
    assert (
        told[-1] == "   The state holds no Node, so empty nodes in plenty are assumed: add nodes to what kubectl gets."
    )


@pytest.mark.parametrize(
    ("item", "said"),
    [
        pytest.param({"kind": "Pod"}, "item 1 (Pod): metadata.name must be a text", id="no metadata"),
        pytest.param({"kind": "Node", "metadata": 5}, "item 1 (Node): metadata.name must be a text", id="a number"),
        pytest.param(
            {"kind": "Pod", "metadata": {"name": "x"}}, "item 1 (Pod x): spec must be an object", id="a pod of nothing"
        ),
        pytest.param(
            {"kind": "Pod", "metadata": {"name": "x"}, "spec": 5},
            "item 1 (Pod x): spec must be an object",
            id="a pod's spec is a number",
        ),
        pytest.param(
            {"kind": "Node", "metadata": {"name": "x", "labels": [1]}},
            "item 1 (Node x): metadata.labels must be an object",
            id="labels are a list",
        ),
        pytest.param(
            {"kind": "ConfigMap", "metadata": {"name": "x"}, "data": [1]},
            "item 1 (ConfigMap x): data must be an object",
            id="data are a list",
        ),
        pytest.param(7, "item 1 must be an object", id="an item is a number"),
    ],
)
def test_an_object_of_the_state_that_none_could_be_is_named(files, capsys: Captured, item: Any, said: str) -> None:
    state = {"kind": "List", "items": [accelerator_class(), item]}
    status, told, err = preview(capsys, files(deployment=applied(1, "image:1"), state=state))
    assert (status, told) == (2, [])
    assert err.endswith(f"state.yaml: {said}\n")


@pytest.mark.parametrize(
    ("state", "said"),
    [
        pytest.param([1, 2], "item 0 must be an object", id="a list"),
        pytest.param({"a": 1}, "it holds no objects of Kubernetes; give what kubectl get -o json prints", id="others"),
    ],
)
def test_a_state_of_something_else_is_refused(files, capsys: Captured, state: Any, said: str) -> None:
    arguments = files(deployment=applied(1, "image:1"), of=accelerator_class(), state=state)
    status, _, err = preview(capsys, arguments)
    assert status == 2
    assert err.endswith(f"state.yaml: {said}\n")


@pytest.mark.parametrize(
    ("contents", "said"),
    [
        pytest.param({"of": accelerator_class()}, "it holds no ModelDeployment", id="no deployment"),
        pytest.param(
            {"deployment": applied(1, "image:1")},
            "'cpu' is not in the catalogue; `modelfleet catalog` lists them, and no file has an AcceleratorClass cpu",
            id="an unknown class",
        ),
        pytest.param(
            {
                "deployment": {**applied(1, "image:1"), "metadata": {"name": "chat"}},
                "of": accelerator_class(),
                "state": {
                    "kind": "List",
                    "items": [
                        manual(1),
                        merged(manual(1), {"metadata": {"namespace": "other"}}),
                    ],
                },
            },
            "the state holds chat in several namespaces; write which one is meant",
            id="two of the same name",
        ),
    ],
)
def test_what_cannot_be_read_is_told(files, capsys: Captured, contents: dict[str, Any], said: str) -> None:
    status, told, err = preview(capsys, files(**contents))
    assert (status, told) == (2, [])
    assert said in err
