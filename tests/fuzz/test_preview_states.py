"""States of a cluster that somebody has damaged, as `modelfleet rollout preview` reads them."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from fuzz_mutations import spoil

from builders import accelerator_class, manual
from modelfleet.cli.main import main
from modelfleet.core.stage import Stage

READY = [{"type": "Ready", "status": "True"}]
OFFERED = {"cpu": "64", "memory": "256Gi", "pods": "110", "modelfleet.dev/cpu": "1"}
NODES: dict[str, Any] = {
    name: {
        "kind": "Node",
        "metadata": {"name": name, "labels": {"modelfleet.dev/accelerator": "cpu"}},
        "status": {"allocatable": OFFERED, "conditions": READY},
    }
    for name in ("one", "two", "three")
}


def state() -> str:
    """Two replicas of a group over two nodes are wanted, and there are nodes for one and a half."""
    layout = {"tensor": 1, "pipeline": 2}
    stage = Stage(manual(2, parallelism=layout), {"cpu": accelerator_class(acceleratorsPerNode=1)}, dict(NODES))
    for _ in range(6):
        stage.happen(stage.reconcile().wake_after_s)
    classes = [*stage.classes.values()]
    return json.dumps({"kind": "List", "items": [stage.deployment, *classes, *NODES.values(), *stage.objects.values()]})


@pytest.mark.parametrize("seed", range(0, 60, 20))
def test_no_damaged_state_ends_in_a_traceback(seed: int, tmp_path: Path, capsys: Any) -> None:
    whole, at = state(), tmp_path / "state.json"
    wanted = manual(2, engine={"image": "image:2"}, parallelism={"tensor": 1, "pipeline": 2})
    applied = tmp_path / "new.json"
    applied.write_text(json.dumps({**wanted, "metadata": {"name": "chat", "namespace": "team"}}))
    for each in range(seed, seed + 20):
        rng, damaged = Random(each), json.loads(whole)
        for _ in range(rng.randint(1, 4)):
            spoil(rng, damaged)
        at.write_text(json.dumps(damaged))
        status = main(["rollout", "preview", "-f", str(applied), "--state", str(at)])
        out, err = capsys.readouterr()
        assert (status, bool(out), bool(err)) in ((0, True, False), (2, False, True)), f"seed {each}: {err}"
