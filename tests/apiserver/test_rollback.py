"""`modelfleet rollback` and `rollout pause` against a real API server, as a user runs them, and what the operator makes
of it; part of `make e2e-rollout`."""

from pathlib import Path

import pytest
from fleet import Fleet

from cli_tables import Captured
from modelfleet.api import names
from modelfleet.cli.main import main

pytestmark = [pytest.mark.thorough]


@pytest.fixture
def shell(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """kubectl and its configuration, as a user's shell has them."""
    monkeypatch.setenv("PATH", str(Path(fleet.cluster.binary("kubectl")).parent))
    monkeypatch.setenv("KUBECONFIG", str(fleet.cluster.kubeconfig))


def images(fleet: Fleet) -> set[str]:
    return {pod["spec"]["containers"][0]["image"] for pod in fleet.children("pods")}


def change(fleet: Fleet, image: str, **rollout: object) -> None:
    scaling = {"mode": "Manual", "minReplicas": 1, "maxReplicas": 4, "replicas": 2}
    fleet.apply(fleet.deployment("chat", scaling=scaling, engine={"image": image}, rollout=rollout))


@pytest.mark.usefixtures("operator", "shell")
def test_a_user_goes_back_and_the_operator_rolls_the_old_plan(fleet: Fleet, capsys: Captured) -> None:
    fleet.create_class()
    for image in ("image:1", "image:2"):
        change(fleet, image)
        fleet.wait(f"{image} everywhere", lambda image=image: images(fleet) == {image})
        fleet.settled()
    assert main(["rollback", "chat", "-n", fleet.namespace]) == 0
    assert "spec.engine as in revision" in capsys.readouterr().out
    fleet.wait("the old image everywhere", lambda: images(fleet) == {"image:1"})
    fleet.settled()
    spec = (fleet.get(names.DEPLOYMENT_PLURAL, "chat") or {})["spec"]
    assert (spec["engine"]["image"], spec["scaling"]["replicas"]) == ("image:1", 2)
    assert main(["rollout", "history", "chat", "-n", fleet.namespace]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[-2:]] == ["3", "2"]


@pytest.mark.usefixtures("operator", "shell")
def test_a_paused_rollout_moves_nothing_until_it_is_resumed(fleet: Fleet) -> None:
    fleet.create_class()
    change(fleet, "image:1")
    fleet.settled()
    assert main(["rollout", "pause", "chat", "-n", fleet.namespace]) == 0
    change(fleet, "image:2", paused=True)
    fleet.wait_condition("Progressing", "Unknown", "RolloutPaused")
    assert images(fleet) == {"image:1"}
    assert main(["rollout", "resume", "chat", "-n", fleet.namespace]) == 0
    fleet.wait("the new image everywhere", lambda: images(fleet) == {"image:2"})
