"""What was measured is written down beside everything else: how often, and what becomes of a write that fails."""

import logging

import pytest

from fake_cluster import FakeCluster
from modelfleet.api import names
from modelfleet.controller.cluster import Refused
from modelfleet.controller.execute import execute
from modelfleet.controller.metrics.exposition import Exposition
from modelfleet.controller.resources import PODS, PROFILES
from modelfleet.controller.triggers import Key
from modelfleet.core.effects import Create, Note
from modelfleet.core.perf.cells import Cell
from modelfleet_worker.engine_counts import Cell as Counted
from sampled import KEY, Sampled, worker
from worker_pages import good

CHAT = Key("default", "chat")
NAME = "chat-observed-12345678"
CELLS = {(3, 0): Counted(600, 6.0, 4200, 0), (3, 2): Counted(40, 0.8, 280, 8000)}


def note(uid: str = "", decode: str = "1.2") -> Note:
    owner = {"apiVersion": names.API_VERSION, "kind": names.DEPLOYMENT_KIND, "name": "chat", "uid": "u1"}
    return Note(
        {
            "apiVersion": names.API_VERSION,
            "kind": names.PROFILE_KIND,
            "metadata": {"name": NAME, "namespace": "default", "ownerReferences": [owner | {"controller": True}]},
            "spec": {"stepTime": {"decode": decode}},
        },
        uid,
    )


def pod() -> Create:
    metadata = {"name": "chat-1", "namespace": "default"}
    return Create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}})


async def test_a_note_is_created_and_later_applied_to_what_was_read():
    cluster = FakeCluster()
    assert (await execute(cluster, CHAT, [note()])).writes == 1
    stored = await cluster.get(PROFILES, NAME, "default")
    assert stored is not None
    assert (await execute(cluster, CHAT, [note(stored["metadata"]["uid"], "1.5")])).writes == 1
    stored = await cluster.get(PROFILES, NAME, "default")
    assert stored is not None
    assert stored["spec"]["stepTime"]["decode"] == "1.5"


async def test_a_note_whose_name_is_somebody_elses_is_told_and_stops_nothing(caplog: pytest.LogCaptureFixture):
    cluster = FakeCluster()
    own = {**note().manifest, "metadata": {"name": NAME, "namespace": "default"}, "spec": {"own": True}}
    cluster.put(own)
    with caplog.at_level(logging.WARNING):
        done = await execute(cluster, CHAT, [note(), pod()])
    assert (done.taken, done.stale, done.refused, done.writes) == (None, None, None, 1)
    assert "the name is somebody else's, whose object is left as it is" in caplog.text
    stored = await cluster.get(PROFILES, NAME, "default")
    assert stored is not None
    assert stored["spec"] == {"own": True}


async def test_a_note_that_is_refused_stops_nothing(caplog: pytest.LogCaptureFixture):
    cluster = FakeCluster()
    cluster.faults.append(lambda _verb, kind, _name: Refused("no rights") if kind == names.PROFILE_KIND else None)
    with caplog.at_level(logging.WARNING):
        done = await execute(cluster, CHAT, [note(), pod()])
    assert (done.refused, await cluster.get(PODS, "chat-1", "default") is not None) == (None, True)
    assert "no rights" in caplog.text


def test_steps_are_read_from_a_page_only_where_they_are_wanted():
    sampled, exposition = Sampled().follow(worker()), Exposition()
    text = sampled.page(worker(), good(1), cells=CELLS).text
    plain, whole = exposition.found(text), exposition.found(text, steps=True)
    assert plain.items() <= whole.items()
    assert {where.part for where in whole.keys() - plain.keys()} == {
        "cell.steps",
        "cell.seconds",
        "cell.decode_sequences",
        "cell.prefill_tokens",
    }


def test_a_books_pod_has_the_newest_steps_and_asks_for_them_once_a_minute():
    sampled = Sampled().follow(worker())
    assert sampled.book.wants_steps("uid-0")
    found = sampled.exposition.found(sampled.page(worker(), good(1), cells=CELLS).text, steps=True)
    assert sampled.book.take(worker(), found, sampled.now_s) is None
    assert not sampled.book.wants_steps("uid-0")
    steps = sampled.book.samples(KEY).pods["uid-0"].steps
    assert steps["4", "0"] == Cell(steps=600, seconds=6.0, decode_sequences=4200, prefill_tokens=0)
    assert steps["4", "256"].prefill_tokens == 8000
    sampled.now_s += 60.0
    assert sampled.book.wants_steps("uid-0")


def test_an_engine_that_has_taken_no_step_is_asked_once_a_minute_too():
    sampled = Sampled().follow(worker())
    found = sampled.exposition.found(sampled.page(worker(), good(1)).text, steps=True)
    assert sampled.book.take(worker(), found, sampled.now_s) is None
    assert (sampled.book.wants_steps("uid-0"), sampled.book.samples(KEY).pods["uid-0"].steps) == (False, {})


def test_a_page_without_its_steps_leaves_those_that_are_known():
    sampled = Sampled().follow(worker())
    page = sampled.page(worker(), good(1), cells=CELLS)
    sampled.book.take(worker(), sampled.exposition.found(page.text, steps=True), sampled.now_s)
    sampled.now_s += 5.0
    sampled.book.take(worker(), sampled.exposition.found(page.text), sampled.now_s)
    assert len(sampled.book.samples(KEY).pods["uid-0"].steps) == 2
