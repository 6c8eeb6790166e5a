"""A bad revision that was rolled out in place: what served before comes back by itself, and that is written once."""

from datetime import timedelta
from typing import Any

import pytest

from builders import accelerator_class, condition, is_ready, manual, merged
from modelfleet.core.revisions import HISTORY_LIMIT
from modelfleet.core.stage import Stage
from zero_site import Site, to_zero

GOOD, BAD, WORSE = "image:1", "image:2", "image:3"
REFUSED = {
    "restartCount": 3,
    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    "lastState": {
        "terminated": {
            "exitCode": 1,
            "message": '{"reason": "EngineArgumentsRefused", "message": "unknown flag", "remedy": "correct it"}',
        }
    },
}


def node() -> dict[str, Any]:
    """The only node: it has one accelerator, and all else in plenty."""
    offered = {"cpu": "64", "memory": "256Gi", "pods": "110", "modelfleet.dev/cpu": "1"}
    return {
        "metadata": {"name": "node", "labels": {"modelfleet.dev/accelerator": "cpu"}},
        "spec": {},
        "status": {"allocatable": offered, "conditions": [{"type": "Ready", "status": "True"}]},
    }


@pytest.fixture
def stage() -> Stage:
    """One replica of a good revision serves in a cluster that is full with it."""
    of = Stage(manual(1, engine={"image": GOOD}), {"cpu": accelerator_class()}, {"node": node()})
    of.failing = {BAD: REFUSED, WORSE: REFUSED}
    run(of)
    assert serving(of) == [GOOD]
    return of


def write(stage: Stage, image: str) -> None:
    stage.deployment = merged(stage.deployment, {"spec": {"engine": {"image": image}}})


def run(stage: Stage, steps: int = 12) -> None:
    """Until nothing is to do any more: each decision is made again until it writes nothing."""
    for _ in range(steps):
        for _ in range(5):
            if not stage.reconcile().effects:
                break
        else:
            raise AssertionError("it goes on writing")
        stage.happen(stage.reconcile().wake_after_s)


def serving(stage: Stage) -> list[str]:
    pods = [pod for pod in stage.pods() if is_ready(pod)]
    return [pod["spec"]["containers"][0]["image"] for pod in pods]


def progressing(stage: Stage) -> tuple[str, str, str]:
    return condition(stage.deployment["status"], "Progressing")


def test_the_only_replica_comes_back_in_the_old_revision(stage: Stage) -> None:
    write(stage, BAD)
    run(stage)

    assert serving(stage) == [GOOD]
    assert progressing(stage)[:2] == ("False", "RolledBack")
    assert "unknown flag" in progressing(stage)[2]


def test_a_second_bad_revision_before_the_first_has_failed_returns_to_what_served(stage: Stage) -> None:
    write(stage, BAD)
    run(stage, 4)
    assert serving(stage) == []
    write(stage, WORSE)
    run(stage)

    assert serving(stage) == [GOOD]


def test_however_many_revisions_came_after_it_what_served_is_not_let_go(stage: Stage) -> None:
    (good,) = stage.of("ControllerRevision")
    for number in range(HISTORY_LIMIT):
        inputs = f"{number:08}" + "0" * 56
        name = f"chat-{inputs[:8]}"
        later = {"metadata": {"name": name, "uid": name}, "revision": 10 + number, "data": {"inputs": inputs}}
        stage.objects["ControllerRevision", name] = merged(good, later)
    write(stage, BAD)
    run(stage)

    assert serving(stage) == [GOOD]


def test_a_first_start_that_fails_goes_on_trying() -> None:
    of = Stage(manual(1, engine={"image": BAD}), {"cpu": accelerator_class()}, {"node": node()})
    of.failing = {BAD: REFUSED, WORSE: REFUSED}
    run(of)
    write(of, WORSE)
    run(of)

    assert [pod["spec"]["containers"][0]["image"] for pod in of.pods()] == [WORSE]
    assert progressing(of)[:2] == ("False", "EngineArgumentsRefused")


def test_a_revision_that_has_served_is_not_given_up_when_it_fails_long_after(stage: Stage) -> None:
    del stage.failing[BAD]
    write(stage, BAD)
    run(stage)
    assert serving(stage) == [BAD]
    (pod,) = stage.pods()
    container = {"name": "worker", **REFUSED}
    status = {"phase": "Running", "conditions": [], "containerStatuses": [container]}
    stage.objects["Pod", pod["metadata"]["name"]] = {**pod, "status": status}
    stage.now += timedelta(days=30)
    run(stage, 3)

    assert [each["spec"]["containers"][0]["image"] for each in stage.pods()] == [BAD]
    assert progressing(stage)[:2] == ("False", "EngineArgumentsRefused")


def test_a_bad_revision_that_was_written_at_zero_gives_way_to_the_one_that_served_before() -> None:
    site = Site(deployment=to_zero())
    for _ in range(60):
        site.pass_time(10)
        if site.state == "AtZero" and not site.pods():
            break
    site.deployment["spec"]["engine"]["image"] = BAD
    site.deployment["metadata"]["generation"] = 2
    site.pass_time(7200, each=600)
    assert not site.pods()
    site.hold("a1", 1)
    site.look()
    site.tick(2)
    site.look()
    (name,) = site.pods()
    site.pods()[name]["spec"]["nodeName"] = "node"
    container = {"name": "worker", **REFUSED}
    conditions = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False"}]
    site.pods()[name]["status"] = {"phase": "Running", "conditions": conditions, "containerStatuses": [container]}
    site.look()
    site.hold("a1", 1)
    site.pass_time(120)

    assert site.serving() == 1
    assert [pod["spec"]["containers"][0]["image"] for pod in site.pods().values()] == [site.settings.worker_image]
