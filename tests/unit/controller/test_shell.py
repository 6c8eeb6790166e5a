"""One reconcile against the fake cluster, with decisions that are written down in the test."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from fake_cluster import FakeCluster
from modelfleet.api import names
from modelfleet.controller.cluster import ApiError, Refused
from modelfleet.controller.events import Recorder
from modelfleet.controller.gather import Gatherer
from modelfleet.controller.queue import Done, Forget, Retry
from modelfleet.controller.resources import CONFIG_MAPS, DEPLOYMENTS
from modelfleet.controller.shell import PASSES_S, REFUSED_S, TAKEN_RECHECK_S, Parts, Shell
from modelfleet.controller.triggers import Key
from modelfleet.core.effects import Apply, Create, Delete, Event, Outcome
from modelfleet.core.snapshot import Settings, World

KEY = Key("default", "chat")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Bench:
    """A cluster with one ModelDeployment, a shell on it, and the worlds that were decided on."""

    def __init__(self, decide: Callable[[World], Outcome]) -> None:
        self.cluster, self.worlds, self._decide = FakeCluster(), list[World](), decide
        gatherer = Gatherer(self.cluster, Settings(worker_image="worker:1"), lambda: NOW)
        self.recorder = Recorder(self.cluster, "test", lambda: NOW)
        self.results: list[str] = []
        self.shell = Shell(
            Parts(
                self.cluster,
                gatherer,
                self.recorder,
                self.decide,
                lambda: NOW,
                lambda result, _: self.results.append(result),
            )
        )
        self.deployment = self.cluster.put(deployment())

    def decide(self, world: World) -> Outcome:
        self.worlds.append(world)
        return self._decide(world)

    @property
    def written(self) -> list[tuple[str, str, str]]:
        return self.cluster.writes

    async def stored(self) -> dict[str, Any]:
        found = await self.cluster.get(DEPLOYMENTS, "chat", "default")
        assert found is not None
        return found


def deployment(**metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.DEPLOYMENT_KIND,
        "metadata": {"name": "chat", "namespace": "default", **metadata},
        "spec": {},
    }


def child(name: str = "chat-1", **data: str) -> dict[str, Any]:
    owner = {
        "apiVersion": names.API_VERSION,
        "kind": names.DEPLOYMENT_KIND,
        "name": "chat",
        "uid": "uid-1",
        "controller": True,
    }
    labels = {names.DEPLOYMENT_LABEL: "chat"}
    metadata = {"name": name, "namespace": "default", "labels": labels, "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def create_once(world: World) -> Outcome:
    """Wants one config map; says in its status how many there are, and what holds the name."""
    effects = () if world.config_maps or world.taken else (Create(child()),)
    status = {
        "replicas": len(world.config_maps),
        "selector": ",".join(name for _, name in world.taken) or world.refused,
    }
    return Outcome(effects, {key: value for key, value in status.items() if value}, wake_after_s=60.0)


async def test_effects_are_done_and_the_status_is_written():
    bench = Bench(lambda world: Outcome((Create(child()),), {"replicas": 1}, wake_after_s=60.0))
    assert await bench.shell.reconcile(KEY) == Done(60.0)
    assert bench.written == [("create", "ConfigMap", "chat-1"), ("apply_status", names.DEPLOYMENT_KIND, "chat")]
    assert (await bench.stored())["status"] == {"replicas": 1}


async def test_a_second_reconcile_of_an_unchanged_world_writes_nothing():
    bench = Bench(create_once)
    await bench.shell.reconcile(KEY)
    await bench.shell.reconcile(KEY)  # the status now counts the child
    before = len(bench.written)
    assert await bench.shell.reconcile(KEY) == Done(60.0)
    assert len(bench.written) == before


async def test_a_status_field_of_another_manager_is_not_written_against_for_ever():
    bench = Bench(lambda world: Outcome((), {"replicas": 1}))
    bench.cluster.put({**deployment(), "status": {"readyReplicas": 7}})
    await bench.shell.reconcile(KEY)
    await bench.shell.reconcile(KEY)
    assert bench.written == [("apply_status", names.DEPLOYMENT_KIND, "chat")]


async def test_an_object_that_is_gone_is_forgotten_without_a_decision():
    bench = Bench(create_once)
    bench.cluster.remove(DEPLOYMENTS, "chat", "default")
    assert await bench.shell.reconcile(KEY) == Forget()
    assert (bench.worlds, bench.written) == ([], [])


async def test_an_object_that_was_made_again_under_the_same_name_is_decided_anew():
    bench, forgotten = Bench(create_once), list[Key]()

    class Numbers:
        """Remembers whom it forgot."""

        def view(self, _key: Key) -> None:
            return None

        def wait(self, _key: Key) -> str:
            return ""

        def grants(self, _key: Key) -> tuple[()]:
            return ()

        def hold(self, _key: Key, _scaling: object) -> None:
            """Keeps nothing."""

        def forget(self, key: Key) -> None:
            forgotten.append(key)

    shell = Shell(replace(bench.shell._parts, autoscaler=Numbers()))
    for _ in range(2):
        await shell.reconcile(KEY)
    assert forgotten == []
    bench.cluster.remove(DEPLOYMENTS, "chat", "default")
    bench.cluster.put(deployment(uid="another"))

    await shell.reconcile(KEY)

    assert forgotten == [KEY]


async def test_an_object_that_is_being_deleted_gets_no_children_and_still_a_status():
    bench = Bench(create_once)
    bench.cluster.put(deployment(deletionTimestamp="2026-01-01T00:00:00Z"))
    await bench.shell.reconcile(KEY)
    assert await bench.cluster.list(CONFIG_MAPS, "default") == ()


async def test_a_name_that_another_object_holds_is_shown_to_the_decision_in_the_same_reconcile():
    bench = Bench(create_once)
    foreign = bench.cluster.put(
        {**child(), "metadata": {"name": "chat-1", "namespace": "default"}, "data": {"theirs": "x"}}
    )
    assert await bench.shell.reconcile(KEY) == Done(TAKEN_RECHECK_S)
    assert [set(world.taken) for world in bench.worlds] == [set(), {("ConfigMap", "chat-1")}]
    assert (await bench.stored())["status"] == {"selector": "chat-1"}
    assert await bench.cluster.get(CONFIG_MAPS, "chat-1", "default") == foreign


async def test_a_name_that_is_known_to_be_held_is_not_tried_again_until_it_is_free():
    bench = Bench(create_once)
    bench.cluster.put({**child(), "metadata": {"name": "chat-1", "namespace": "default"}})
    await bench.shell.reconcile(KEY)
    before = len(bench.written)
    await bench.shell.reconcile(KEY)
    assert len(bench.written) == before
    bench.cluster.remove(CONFIG_MAPS, "chat-1", "default")
    await bench.shell.reconcile(KEY)
    assert ("create", "ConfigMap", "chat-1") in bench.written


async def test_what_the_api_server_refuses_is_in_the_status_and_goes_when_it_is_taken():
    bench = Bench(create_once)
    bench.cluster.faults.append(lambda verb, kind, name: Refused("exceeded quota") if verb == "create" else None)
    assert await bench.shell.reconcile(KEY) == Retry(most_s=REFUSED_S)
    assert (await bench.stored())["status"] == {"selector": "exceeded quota"}
    bench.cluster.faults.clear()
    assert await bench.shell.reconcile(KEY) == Done(60.0)
    assert (await bench.stored())["status"] == {"replicas": 1}


async def test_a_child_that_changed_between_read_and_write_means_to_look_again():
    bench = Bench(lambda world: Outcome((Apply(child(), "another-uid"),), {}))
    assert await bench.shell.reconcile(KEY) == Retry(most_s=PASSES_S)
    assert bench.results == ["stale"]


async def test_a_child_that_somebody_else_deleted_first_is_no_fault():
    bench = Bench(lambda world: Outcome((Delete("v1", "ConfigMap", "gone", "uid-9"), Create(child())), {}))
    assert await bench.shell.reconcile(KEY) == Done(None)
    assert bench.written == [("create", "ConfigMap", "chat-1")]


async def test_the_first_effect_that_cannot_be_done_ends_the_effects():
    bench = Bench(lambda world: Outcome((Apply(child(), "another-uid"), Create(child("later"))), {}))
    await bench.shell.reconcile(KEY)
    assert await bench.cluster.get(CONFIG_MAPS, "later", "default") is None


def failing(*_: str) -> None:
    raise ApiError("POST /x: no answer", retry_after_s=7.0)


async def test_an_api_error_is_one_log_line_without_a_traceback_and_a_back_off(caplog):
    bench = Bench(create_once)
    bench.cluster.faults.append(failing)
    with caplog.at_level(logging.INFO, "modelfleet"):
        assert await bench.shell.reconcile(KEY) == Retry(7.0, PASSES_S)
    assert [(record.levelname, record.exc_info) for record in caplog.records] == [("WARNING", None)]


def buggy(world: World) -> Outcome:
    raise ZeroDivisionError("it cannot be")


async def test_a_bug_is_a_condition_and_a_traceback_and_a_back_off_and_never_an_exception(caplog):
    bench = Bench(buggy)
    assert await bench.shell.reconcile(KEY) == Retry()
    conditions = (await bench.stored())["status"]["conditions"]
    assert {(c["type"], c["status"], c["reason"]) for c in conditions} >= {("Ready", "Unknown", "OperatorBug")}
    assert "it cannot be" in conditions[0]["message"]
    assert [record.exc_info is not None for record in caplog.records] == [True]


async def test_a_bug_keeps_the_rest_of_the_status_and_the_next_good_decision_replaces_it():
    bench = Bench(lambda world: Outcome((), {"replicas": 2}))
    await bench.shell.reconcile(KEY)
    bench._decide = buggy
    await bench.shell.reconcile(KEY)
    assert (await bench.stored())["status"]["replicas"] == 2
    bench._decide = lambda world: Outcome((), {"replicas": 2})
    await bench.shell.reconcile(KEY)
    assert not (await bench.stored())["status"]["conditions"]


async def test_a_bug_that_cannot_even_be_told_is_still_no_exception():
    bench = Bench(buggy)
    bench.cluster.faults.append(failing)
    assert await bench.shell.reconcile(KEY) == Retry()


@pytest.mark.looptime(start=100)
async def test_how_long_a_pod_is_out_of_the_service_is_counted_from_when_it_was_first_seen():
    bench = Bench(lambda world: Outcome((), {}))
    labels = {names.DEPLOYMENT_LABEL: "chat", names.SERVING_LABEL: "false"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "labels": labels},
        "spec": {},
    }
    uid = bench.cluster.put(pod)["metadata"]["uid"]
    await bench.shell.reconcile(KEY)
    await asyncio.sleep(7)
    await bench.shell.reconcile(KEY)
    bench.cluster.put({**pod, "metadata": {**pod["metadata"], "labels": labels | {names.SERVING_LABEL: "true"}}})
    await bench.shell.reconcile(KEY)
    assert [world.not_serving_s for world in bench.worlds] == [{uid: 0.0}, {uid: 7.0}, {}]


async def test_events_are_recorded_on_the_object():
    bench = Bench(lambda world: Outcome((), {}, events=(Event("Warning", "ClassNotFound", "no such class"),)))
    await bench.shell.reconcile(KEY)
    await bench.recorder.flush()
    assert [kind for verb, kind, _ in bench.written if verb == "create"] == ["Event"]
