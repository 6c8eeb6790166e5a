"""Many models in one activator: what an event of one costs the others, and what of them is served when."""

import asyncio
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from activator_api import SPACE, Object, activator_slice, deployment, workers_slice
from modelfleet.activator.fleet import Fleet, Key
from modelfleet.activator.line import Line, Surroundings
from modelfleet.activator.meter import Meter
from modelfleet.activator.telling import Demands, Membership, Seen
from modelfleet.controller.cluster import ApiError, Written
from modelfleet.core.activation.holding import Limits
from modelfleet.core.activation.known import Known, known
from modelfleet.core.activation.slices import Address, Own

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OWN = Own("10.0.0.9", "activator-a", "system")
pytestmark = pytest.mark.looptime


class Asked(dict[Key, Line]):
    """Lines, and how many of them were asked for."""

    asked = 0

    def get(self, key: Key, default: Any = None) -> Any:
        self.asked += 1
        return super().get(key, default)

    def __iter__(self) -> Iterator[Key]:
        self.asked += len(self)
        return super().__iter__()


class Api:
    """An API server that takes writes, after half a minute those of `slow`, and fails the first `fails`. What it took:
    name and requests that wait."""

    def __init__(self, slow: str = "") -> None:
        self.slow, self.took, self.fails = slow, list[tuple[str, int]](), 0

    async def apply_status(self, manifest: Mapping[str, Any]) -> Written:
        name = manifest["metadata"]["name"]
        if name == self.slow:
            await asyncio.sleep(30)
        if self.fails:
            self.fails -= 1
            raise ApiError("it is away")
        demand = manifest["status"]["demand"]
        self.took.append((name, demand[0]["waiting"] if demand else 0))
        return Written({})

    async def merge(self, _: object, name: str, *__: object) -> Written:
        self.took.append((name, 0))
        return Written({})


class Models:
    """A fleet of models at zero, named m0, m1 and so on."""

    def __init__(self, count: int = 0) -> None:
        self.changed: list[Key] = []
        self.around = Surroundings("activator-a", Limits(), lambda: NOW, self.changed.append)
        self.objects: dict[Key, Known | None] = {}
        self.slices: dict[Key, Object] = {}
        self.fleet = Fleet(self.around, Meter(), lambda: None)
        for number in range(count):
            self.put(f"m{number}", 20000 + number)

    def put(self, name: str, port: int, uid: str = "", created: str = "2026-01-01T00:00:00Z") -> Line:
        made = deployment(name, port)
        made["metadata"] |= {"uid": uid or f"uid-{name}", "creationTimestamp": created}
        key = made["metadata"]["namespace"], name
        self.objects[key] = known(made)
        self.fleet.learn([key], self.objects)
        return self.fleet.lines[key]

    def put_slice(self, made: Object) -> set[Key]:
        key = made["metadata"]["namespace"], made["metadata"]["name"]
        self.slices[key] = made
        return self.fleet.look_at_slices([key], self.slices)

    def remove_slice(self, key: Key) -> None:
        del self.slices[key]
        self.fleet.look_at_slices([key], self.slices)


def demands(api: Api) -> Demands:
    return Demands(api, "activator-a", lambda: NOW, Meter())  # type: ignore[arg-type]


async def settled(told: Demands, lines: Mapping[Key, Line], seconds: float) -> None:
    """As its loop looks for so long."""
    looking = asyncio.create_task(told.run(lambda: lines))
    await asyncio.sleep(seconds)
    looking.cancel()


async def test_one_who_waits_is_told_without_a_look_at_any_other_model() -> None:
    models, api = Models(300), Api()
    lines, told = Asked(models.fleet.lines), demands(api)
    line = lines[SPACE, "m7"]
    line.enter(0.0)
    told.changed(line.model.key)
    await settled(told, lines, 0.4)
    assert api.took == [(line.model.name, 1)]
    assert lines.asked <= 3
    assert models.changed == [line.model.key]


async def test_a_write_that_hangs_keeps_no_other_model_from_waking() -> None:
    models, api = Models(2), Api(slow="m0")
    told = demands(api)
    for line in models.fleet.lines.values():
        line.enter(0.0)
        told.changed(line.model.key)
        told.look(models.fleet.lines)
    await asyncio.sleep(1)
    assert api.took == [("m1", 1)]
    await asyncio.sleep(30)
    assert api.took == [("m1", 1), ("m0", 1)]


async def test_a_write_that_failed_is_made_again_and_while_something_waits_its_time_is_told_anew() -> None:
    models, api = Models(1), Api()
    (line,), told = models.fleet.lines.values(), demands(api)
    api.fails = 2
    line.enter(0.0)
    told.changed(line.model.key)
    await settled(told, models.fleet.lines, 6)
    assert api.took == [("m0", 1)]


async def test_what_is_written_when_the_process_ends_is_the_last_word() -> None:
    models, api = Models(1), Api(slow="m0")
    (line,), told = models.fleet.lines.values(), demands(api)
    place = line.enter(0.0)
    told.changed(line.model.key)
    told.look(models.fleet.lines)
    line.leave(place)
    await told.clear(models.fleet.lines)
    assert api.took == [("m0", 1), ("m0", 0)]


async def test_membership_looks_at_the_models_whose_slices_changed_and_at_all_every_few_seconds() -> None:
    models = Models(3)
    models.fleet.lines = lines = Asked(models.fleet.lines)
    member = Membership(Api(), OWN, Meter())  # type: ignore[arg-type]
    seen = Seen(models.fleet, frozenset(), frozenset({OWN.address}))
    wait_s = member.look(seen)
    lines.asked = 0
    member.changed({(SPACE, "m1")})
    member.look(seen)
    assert lines.asked == 0
    await asyncio.sleep(wait_s)
    member.look(seen)
    assert lines.asked >= 3


async def test_membership_enters_once_its_port_listens() -> None:
    models, api = Models(3), Api()
    member = Membership(api, OWN, Meter())  # type: ignore[arg-type]
    seen = Seen(models.fleet, frozenset({20001}), frozenset({OWN.address}))
    assert member.look(seen) > 1
    for number in range(2):
        member.changed(models.put_slice(activator_slice(f"m{number}", 20000 + number)))
    member.look(seen)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert api.took == [("m1-activator", 0)]


async def test_a_model_whose_status_was_lost_is_served_as_before() -> None:
    models = Models(2)
    line = models.put("m0", 20000)
    key = line.model.key
    models.objects[key] = None
    models.fleet.learn([key], models.objects)
    assert models.fleet.line_at(20000) is line
    assert models.fleet.ports == {20000, 20001}
    del models.objects[key]
    models.fleet.learn([key], models.objects)
    assert models.fleet.line_at(20000) is None


async def test_a_port_that_was_given_to_another_is_the_other_s() -> None:
    models = Models()
    first, second = models.put("a", 20000), models.put("b", 20001)
    models.objects[first.model.key] = None
    models.fleet.learn([first.model.key], models.objects)
    models.put("b", 20000)
    assert models.fleet.line_at(20000) is second


async def test_of_two_models_that_name_one_port_the_older_has_it_and_a_new_one_of_the_same_name_is_another() -> None:
    models = Models()
    models.put("young", 20000, created="2026-02-01T00:00:00Z")
    old = models.put("old", 20000)
    assert models.fleet.line_at(20000) is old
    place = old.enter(0.0)
    new = models.put("old", 20000, uid="uid-new", created="2026-03-01T00:00:00Z")
    assert place.outcome.done()
    assert new is not old
    assert models.fleet.line_at(20000) is models.fleet.lines[SPACE, "young"]


async def test_workers_come_and_go_with_their_slice_and_clients_stay_while_the_service_leads_to_activators() -> None:
    models = Models(1)
    line = models.fleet.lines[SPACE, "m0"]
    models.put_slice(activator_slice("m0", 20000))
    assert models.put_slice(workers_slice("m0", {"10.0.0.1": 8000})) == {(SPACE, "m0")}
    assert (set(line.workers), line.stands_in) == ({Address("10.0.0.1", 8000)}, True)
    models.remove_slice((SPACE, "m0-activator"))
    assert not line.stands_in
    models.remove_slice((SPACE, "m0-x7f2a"))
    assert (set(line.workers), line.stands_in) == (set(), True)


async def test_a_model_that_came_after_its_slices_has_its_workers() -> None:
    models = Models()
    assert models.put_slice(workers_slice("m0", {"10.0.0.1": 8000})) == set()
    line = models.put("m0", 20000)
    assert line.serving
