"""Every child object and some whole statuses as committed YAML. `make golden` rewrites them; read the diff."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from builders import SETTINGS, Fleet, deployment, large_class, large_deployment, manual
from group_worlds import grouped
from modelfleet.core.effects import Create
from modelfleet.core.reconcile import plan
from modelfleet.core.render.metadata import Owner
from modelfleet.core.render.network_policy import network_policy
from planner_worlds import PlannedFleet, planned
from weight_worlds import CACHE, COMMIT, HUB_MODEL, fetching

HERE = Path(__file__).parent / "children"
AT_COMMIT = {"source": f"hf://org/model@{COMMIT}"}


def created(fleet: Fleet, kind: str) -> Any:
    """The first of a kind; the promise, which all deployments have, is not meant."""
    made = (effect.manifest for effect in plan(fleet.world()).effects if isinstance(effect, Create))
    return next(one for one in made if one["kind"] == kind and one["metadata"]["name"] != "chat-promise")


def of_group(kind: str, index: int) -> Any:
    """What is created for a replica of two pods on two nodes."""
    made = [effect.manifest for effect in plan(grouped().world()).effects if isinstance(effect, Create)]
    return [manifest for manifest in made if manifest["kind"] == kind][index]


def ended_twice() -> Fleet:
    """A group of which a pod was evicted twice."""
    fleet = grouped()
    for _ in range(2):
        fleet.settle()
        list(fleet.pods().values())[1]["status"] = {"phase": "Failed", "reason": "Evicted"}
        fleet.reconcile()
    fleet.tick(1.0)
    fleet.reconcile()
    return fleet


def status(fleet: Fleet) -> Any:
    for _ in range(12):
        outcome = fleet.reconcile()
        fleet.tick()
    return outcome.status


def inspected() -> Any:
    """The ConfigMap that keeps what a Job has read."""
    fleet = PlannedFleet(planned(None))
    fleet.reconcile()
    fleet.run_jobs()
    return named(fleet, "-state")


def named(fleet: Fleet, end: str) -> Any:
    """The object that is created under a name with this `end`."""
    created = (effect.manifest for effect in plan(fleet.world()).effects if isinstance(effect, Create))
    return next(manifest for manifest in created if manifest["metadata"]["name"].endswith(end))


class Dumper(yaml.SafeDumper):
    """Writes a text of several lines as a block."""


Dumper.add_representer(
    str, lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, "|" if "\n" in text else None)
)


CASES: dict[str, Callable[[], Any]] = {
    "pod-small": lambda: created(Fleet(), "Pod"),
    "pod-large": lambda: created(Fleet(large_deployment(), {"h100": large_class()}), "Pod"),
    "config-map-small": lambda: created(Fleet(), "ConfigMap"),
    "config-map-large": lambda: created(Fleet(large_deployment(), {"h100": large_class()}), "ConfigMap"),
    "promise-small": lambda: named(Fleet(), "-promise"),
    "promise-large": lambda: named(Fleet(large_deployment(), {"h100": large_class()}), "-promise"),
    "pod-fetched-node": lambda: created(fetching(HUB_MODEL | AT_COMMIT, cache=CACHE), "Pod"),
    "pod-fetched-claim": lambda: created(fetching(HUB_MODEL | AT_COMMIT | {"cache": {"claimName": "big"}}), "Pod"),
    "pod-fetched-alone": lambda: created(fetching(AT_COMMIT), "Pod"),
    "pod-node-folder": lambda: created(
        fetching({"source": "file:///mnt/models/llama"}, settings=replace(SETTINGS, node_folders=("/mnt/models",))),
        "Pod",
    ),
    "config-map-fetched": lambda: created(fetching(HUB_MODEL | AT_COMMIT, cache=CACHE), "ConfigMap"),
    "job-inspect-fetched": lambda: created(fetching(), "Job"),
    "service": lambda: created(Fleet(), "Service"),
    "disruption-budget": lambda: created(Fleet(manual(3)), "PodDisruptionBudget"),
    "network-policy": lambda: network_policy(Owner("chat", "prod", "uid-1"), "1a2b3c4d", 0),
    "pod-group-leader": lambda: of_group("Pod", 0),
    "pod-group-follower": lambda: of_group("Pod", 1),
    "service-group": lambda: of_group("Service", 1),
    "config-map-group": lambda: created(grouped(), "ConfigMap"),
    "state-groups": lambda: ended_twice().objects["ConfigMap", "chat-state"],
    "status-group-backs-off": lambda: ended_twice().deployment["status"],
    "status-group-no-room": lambda: status(grouped(machines=("n1",))),
    "revision-small": lambda: created(Fleet(), "ControllerRevision"),
    "revision-large": lambda: created(Fleet(large_deployment(), {"h100": large_class()}), "ControllerRevision"),
    "job-inspect": lambda: created(PlannedFleet(planned(None)), "Job"),
    "state-inspected": lambda: inspected(),
    "status-inspecting": lambda: plan(PlannedFleet(planned(None)).world()).status,
    "status-new": lambda: plan(Fleet().world()).status,
    "status-settled": lambda: status(Fleet(manual(2))),
    "status-no-room": lambda: status(Fleet(manual(2), room=1)),
    "status-image-not-pullable": lambda: status(
        Fleet(deployment(engine={"image": "image:2"}), broken_images={"image:2"})
    ),
    "status-refused": lambda: status(Fleet(deployment(parallelism={"tensor": 8}))),
}


@pytest.mark.parametrize("name", CASES)
def test_child(name: str, request: pytest.FixtureRequest) -> None:
    got = yaml.dump(CASES[name](), Dumper=Dumper, sort_keys=False, width=110, allow_unicode=True)
    path = HERE / f"{name}.yaml"
    if request.config.getoption("--update-golden"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(got)
    assert path.read_text() == got, "run `make golden`, then read the diff"


def test_every_golden_child_has_a_case() -> None:
    assert {path.stem for path in HERE.glob("*")} == set(CASES)
