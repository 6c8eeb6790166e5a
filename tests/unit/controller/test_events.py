"""The recorder on virtual time: few events, counted, and never in the way."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from fake_cluster import FakeCluster
from modelfleet.api import names
from modelfleet.controller.cluster import ApiError
from modelfleet.controller.events import BURST, QUEUE_LIMIT, REFILL_S, SERIES_S, Recorder
from modelfleet.controller.resources import EVENTS
from modelfleet.core.effects import Event

pytestmark = pytest.mark.looptime(start=0)

OBJECT = {
    "apiVersion": names.API_VERSION,
    "kind": names.DEPLOYMENT_KIND,
    "metadata": {"name": "chat", "namespace": "default", "uid": "u-1"},
}


class Bench:
    def __init__(self) -> None:
        self.cluster, self.dropped = FakeCluster(), 0
        self.recorder = self.new_recorder()

    def new_recorder(self) -> Recorder:
        return Recorder(self.cluster, "test", lambda: datetime(2026, 1, 1, tzinfo=UTC), self.drop)

    def drop(self) -> None:
        self.dropped += 1

    async def record(self, note: str, reason: str = "Scaled") -> None:
        self.recorder.record(OBJECT, Event("Normal", reason, note))
        await self.recorder.flush()

    async def events(self) -> tuple[dict[str, Any], ...]:
        return await self.cluster.list(EVENTS, "default")


async def test_an_event_says_what_it_is_about_and_who_reports_it():
    bench = Bench()
    await bench.record("1 replica becomes 2")
    (event,) = await bench.events()
    assert (event["regarding"]["uid"], event["reason"], event["note"]) == ("u-1", "Scaled", "1 replica becomes 2")
    assert (event["reportingController"], event["type"]) == ("modelfleet.dev/operator", "Normal")


async def test_the_same_note_again_is_counted_in_the_first_event_and_written_once_in_a_while():
    bench = Bench()
    for _ in range(10):
        await bench.record("same")
    assert len(bench.cluster.writes) == 1
    await asyncio.sleep(SERIES_S)
    await bench.record("same")
    (event,) = await bench.events()
    assert (event["series"]["count"], len(bench.cluster.writes)) == (11, 2)


async def test_an_event_of_an_earlier_process_is_counted_on():
    bench = Bench()
    await bench.record("same")
    bench.recorder = bench.new_recorder()
    await bench.record("same")
    (event,) = await bench.events()
    assert event["series"]["count"] == 2


async def test_an_event_whose_time_to_live_is_over_is_told_anew():
    bench = Bench()
    await bench.record("same")
    (event,) = await bench.events()
    bench.cluster.remove(EVENTS, event["metadata"]["name"], "default")
    await asyncio.sleep(SERIES_S)
    await bench.record("same")
    assert len(await bench.events()) == 1


async def test_ever_new_notes_of_one_reason_are_limited_and_the_rest_is_counted_as_dropped():
    bench = Bench()
    for number in range(BURST + 5):
        await bench.record(f"note {number}")
    assert (len(await bench.events()), bench.dropped) == (BURST, 5)
    await asyncio.sleep(REFILL_S)
    await bench.record("later")
    assert len(await bench.events()) == BURST + 1


async def test_a_flood_of_one_reason_leaves_room_for_another():
    bench = Bench()
    for number in range(BURST + 1):
        await bench.record(f"note {number}")
    await bench.record("important", reason="EngineDied")
    assert "important" in {event["note"] for event in await bench.events()}


async def test_a_recorder_that_cannot_write_drops_and_never_raises_or_waits():
    bench = Bench()

    def fail(*_: str) -> None:
        raise ApiError("no answer")

    bench.cluster.faults.append(fail)
    await bench.record("lost")
    assert bench.dropped == 1


async def test_what_does_not_fit_in_the_queue_is_dropped_at_once():
    bench = Bench()
    for number in range(QUEUE_LIMIT + 3):
        bench.recorder.record(OBJECT, Event("Normal", "Scaled", str(number)))
    assert bench.dropped == 3


async def test_a_note_longer_than_the_api_allows_is_cut_and_says_so():
    bench = Bench()
    await bench.record("x" * 5000)
    (event,) = await bench.events()
    assert (len(event["note"]), event["note"][-1]) == (1024, "…")
