"""Films of rollouts as committed text: the real decision on a cluster in memory. `make golden` rewrites them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from builders import READY, accelerator_class, manual, merged
from modelfleet.core.film import Film, lines
from modelfleet.core.stage import Stage

HERE = Path(__file__).parent / "films"
Change = Callable[[Stage], str]

REFUSED = {
    "restartCount": 3,
    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    "lastState": {
        "terminated": {
            "exitCode": 1,
            "message": '{"reason": "ModelRefused", "message": "vLLM refuses the model", "remedy": "mend config.json"}',
        }
    },
}
NO_IMAGE = {"restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}}


def node(name: str) -> dict[str, Any]:
    """A node that has one accelerator free, and all else in plenty."""
    offered = {"cpu": "64", "memory": "256Gi", "pods": "110", "modelfleet.dev/cpu": "1"}
    return {
        "metadata": {"name": name, "labels": {"modelfleet.dev/accelerator": "cpu"}},
        "spec": {},
        "status": {"allocatable": offered, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def stage(replicas: int, nodes: int, *, per_node: int = 4, **spec: Any) -> Stage:
    """A fleet that wants so many replicas of image:1 on so many nodes, each with one accelerator free."""
    names = [f"node-{index}" for index in range(nodes)]
    of = manual(replicas, **{"engine": {"image": "image:1"}, **spec})
    return Stage(of, {"cpu": accelerator_class(acceleratorsPerNode=per_node)}, {name: node(name) for name in names})


def changed(words: str, **spec: Any) -> Change:
    """The user writes these fields of the spec."""

    def change(of: Stage) -> str:
        generation = of.deployment["metadata"]["generation"] + 1
        of.deployment = merged(of.deployment, {"metadata": {"generation": generation}, "spec": spec})
        return words

    return change


def image(number: int) -> Change:
    return changed(f"The user writes image:{number}.", engine={"image": f"image:{number}"})


def cordoned(name: str, *, on: bool = True) -> Change:
    def change(of: Stage) -> str:
        of.nodes[name] = merged(of.nodes[name], {"spec": {"unschedulable": on or None}})
        return f"{name} is {'cordoned' if on else 'uncordoned'}."

    return change


def evicted(slot: int) -> Change:
    def change(of: Stage) -> str:
        pod = next(item for item in of.pods() if item["metadata"]["name"].endswith(f"-{slot}"))
        of.delete(("Pod", pod["metadata"]["name"]))
        return f"Kubernetes evicts replica {slot}."

    return change


def mended(of: Stage) -> str:
    of.failing.clear()
    for pod in of.pods():
        if pod["spec"].get("nodeName"):
            of.report(pod, READY)
    return "The image is pushed, and the kubelets pull it."


def added(name: str) -> Change:
    def change(of: Stage) -> str:
        of.nodes[name] = node(name)
        return f"{name} is added."

    return change


@dataclass
class Case:
    """A stage, what somebody does before which frame, and images whose workers fail."""

    stage: Callable[[], Stage]
    story: dict[int, Change]
    failing: dict[str, Any] = field(default_factory=dict)

    def film(self) -> str:
        of = self.stage()
        of.failing = dict(self.failing)
        film = Film(of, self.story).run()
        text = "\n".join(list(lines(film))[len(film.letters) :]) + "\n"
        for revision, letter in film.letters.items():  # a hash says nothing, and changes with what it is made of
            text = text.replace(revision, letter)
        return text


SERVES = 2  # the frame in which all replicas of a fleet serve for the first time
CASES = {
    "surge": Case(lambda: stage(3, 4), {SERVES: image(2)}),
    "in-place": Case(lambda: stage(3, 3), {SERVES: image(2)}),
    "in-place-by-two": Case(lambda: stage(4, 4, rollout={"maxSurge": 0, "maxUnavailable": 2}), {SERVES: image(2)}),
    "no-room": Case(
        lambda: stage(2, 2, rollout={"maxUnavailable": 0}), {SERVES: image(2), SERVES + 1: added("node-2")}
    ),
    "broken-new-revision": Case(lambda: stage(3, 4), {SERVES: image(2), 6: image(3)}, {"image:2": REFUSED}),
    "in-place-and-back": Case(lambda: stage(1, 1), {SERVES: image(2)}, {"image:2": REFUSED}),
    "held-after-a-failure": Case(
        lambda: stage(2, 3, rollout={"onFailure": "Hold"}), {SERVES: image(2), 6: image(1)}, {"image:2": REFUSED}
    ),
    "broken-old-revision": Case(lambda: stage(3, 3), {SERVES: image(2)}, {"image:1": REFUSED}),
    "reverted-in-the-middle": Case(lambda: stage(3, 4), {SERVES: image(2), 7: image(1)}),
    "paused-and-resumed": Case(
        lambda: stage(3, 4),
        {
            SERVES: image(2),
            7: changed("The user pauses the rollout.", rollout={"paused": True}),
            9: changed("The user resumes the rollout.", rollout={"paused": False}),
        },
    ),
    "scaled-in-a-rollout": Case(
        lambda: stage(2, 5),
        {SERVES: image(2), 4: changed("The user scales to 4 replicas.", scaling={"replicas": 4})},
    ),
    "group-over-two-nodes": Case(lambda: stage(2, 6, per_node=1, parallelism={"pipeline": 2}), {SERVES: image(2)}),
    "cordon": Case(lambda: stage(3, 4), {SERVES: cordoned("node-1")}),
    "cordon-without-room": Case(lambda: stage(2, 2), {SERVES: cordoned("node-1"), SERVES + 1: added("node-2")}),
    "eviction": Case(lambda: stage(3, 4), {SERVES: evicted(1)}),
    "deadline-and-back": Case(
        lambda: stage(2, 3, rollout={"progressDeadline": "10m"}),
        {
            SERVES: image(2),
            7: changed("The user pauses the rollout.", rollout={"paused": True}),
            8: mended,
            9: changed("The user resumes the rollout: the same spec is tried again.", rollout={"paused": False}),
        },
        {"image:2": NO_IMAGE},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_film(name: str, request: pytest.FixtureRequest) -> None:
    got = CASES[name].film()
    path = HERE / f"{name}.txt"
    if request.config.getoption("--update-golden"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(got)
    assert path.read_text() == got, "run `make golden`, then read the diff"


def test_every_golden_film_has_a_case() -> None:
    assert {path.stem for path in HERE.glob("*")} == set(CASES)
