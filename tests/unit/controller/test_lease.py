"""Leading by a Lease on the fake cluster, in virtual time."""

import asyncio
import logging
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from fake_cluster import FakeCluster
from modelfleet.controller.cluster import ApiError, Refused
from modelfleet.controller.lease import Candidate, Elected
from modelfleet.controller.resources import LEASES

pytestmark = pytest.mark.looptime(start=1000)


def now():
    return datetime.fromtimestamp(clock_s(), UTC)


def elected(cluster, identity):
    return Elected(cluster, Candidate("default", "operator", identity), now)


def clock_s():
    return asyncio.get_running_loop().time()


class Asked:
    """The fake cluster behind a wire that can be cut: then nothing is answered, and what was sent may be stored."""

    def __init__(self, cluster):
        self._cluster = cluster
        self.cut = self.cut_writes = False
        self.stores_when_cut = False
        self.requests = 0

    async def get(self, *args):
        return await self._answer(self._cluster.get(*args), self.cut)

    async def create(self, manifest):
        return await self._answer(self._cluster.create(manifest), self.cut or self.cut_writes)

    async def merge(self, *args):
        return await self._answer(self._cluster.merge(*args), self.cut or self.cut_writes)

    async def _answer(self, request, cut):
        self.requests += 1
        if not cut:
            return await request
        if self.stores_when_cut:
            await request
        else:
            request.close()
        await asyncio.get_running_loop().create_future()


async def holder(cluster):
    stored = await cluster.get(LEASES, "operator", "default")
    return stored["spec"]["holderIdentity"], stored["spec"]["leaseTransitions"]


@asynccontextmanager
async def leading(leadership):
    """It leads and keeps on; yields the task that ends when the Lease is lost."""
    await leadership.acquire()
    keeping = asyncio.create_task(leadership.keep())
    yield keeping
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


async def test_the_first_leads_at_once_and_the_second_stands_by_for_as_long_as_it_renews():
    cluster = FakeCluster()
    first, second = elected(cluster, "one"), elected(cluster, "two")
    async with leading(first) as keeping:
        waiting = asyncio.create_task(second.acquire())
        await asyncio.sleep(600)
        assert (keeping.done(), waiting.done(), first.leads, second.leads) == (False, False, True, False)
        assert (first.write_left_s() > 10, second.write_left_s()) == (True, 0.0)
        assert (first.fault(), second.fault()) == (None, None)
        waiting.cancel()


async def test_two_that_start_in_the_same_moment_are_one_leader_and_one_standby():
    cluster = FakeCluster()
    both = [elected(cluster, "one"), elected(cluster, "two")]
    tasks = [asyncio.create_task(each.acquire()) for each in both]
    await asyncio.sleep(10)
    assert sorted(each.leads for each in both) == [False, True]
    for task in tasks:
        task.cancel()


async def test_a_release_hands_over_at_the_next_look_and_is_a_transition():
    cluster = FakeCluster()
    first, second = elected(cluster, "one"), elected(cluster, "two")
    async with leading(first):
        waiting = asyncio.create_task(second.acquire())
        await asyncio.sleep(60)
    released_s = clock_s()
    await first.release()
    assert (first.leads, first.write_left_s(), await holder(cluster)) == (False, 0.0, ("", 0))
    await waiting
    assert clock_s() - released_s <= 2
    assert await holder(cluster) == ("two", 1)


async def test_a_leader_that_is_gone_is_followed_when_its_lease_expired_and_not_before():
    cluster = FakeCluster()
    first, second = elected(cluster, "one"), elected(cluster, "two")
    async with leading(first):
        waiting = asyncio.create_task(second.acquire())
        await asyncio.sleep(60.5)
    killed_s, may_write_s = clock_s(), first.write_left_s()
    await waiting
    assert may_write_s <= clock_s() - killed_s <= 15 + 2
    assert await holder(cluster) == ("two", 1)


async def test_a_leader_that_is_cut_off_gives_up_at_the_deadline_before_its_lease_expires():
    wire = Asked(FakeCluster())
    first = elected(wire, "one")
    async with leading(first) as keeping:
        await asyncio.sleep(7)
        renewed_s = clock_s() + first.write_left_s() - 15
        wire.cut = True
        why = await keeping
    assert why == "the Lease default/operator is lost: it could not be renewed for 10 s"
    assert clock_s() - renewed_s == pytest.approx(10, abs=0.01)
    assert (first.leads, first.write_left_s()) == (False, 0.0)


async def test_a_cut_shorter_than_the_deadline_costs_nothing_also_when_writes_were_stored_unanswered():
    wire = Asked(FakeCluster())
    wire.stores_when_cut = True
    first = elected(wire, "one")
    async with leading(first) as keeping:
        await asyncio.sleep(7)
        wire.cut = True
        await asyncio.sleep(4)
        wire.cut = False
        await asyncio.sleep(60)
        assert (keeping.done(), first.leads) == (False, True)
    assert await holder(wire) == ("one", 0)


async def test_a_process_that_slept_over_its_deadline_gives_up_without_asking():
    wire = Asked(FakeCluster())
    first = elected(wire, "one")
    async with leading(first) as keeping:
        await asyncio.sleep(1)
        asked = wire.requests
        asyncio.get_running_loop().setup_looptime(start=clock_s() + 30)
        assert first.write_left_s() < 0
        assert "could not be renewed for 31 s" in await keeping
    assert wire.requests == asked


async def test_a_lease_that_another_wrote_over_is_lost_at_the_next_renewal():
    cluster = FakeCluster()
    first = elected(cluster, "one")
    async with leading(first) as keeping:
        await cluster.merge(LEASES, "operator", "default", {"spec": {"holderIdentity": "usurper"}})
        assert await keeping == "the Lease default/operator is lost: it is held by usurper"


async def test_an_annotation_by_somebody_else_does_not_cost_the_lease():
    cluster = FakeCluster()
    first = elected(cluster, "one")
    async with leading(first) as keeping:
        await cluster.merge(LEASES, "operator", "default", {"metadata": {"annotations": {"note": "x"}}})
        await asyncio.sleep(60)
        assert (keeping.done(), first.leads) == (False, True)


async def test_a_lease_that_is_deleted_by_hand_stays_with_its_leader():
    cluster = FakeCluster()
    first, second = elected(cluster, "one"), elected(cluster, "two")
    async with leading(first) as keeping:
        waiting = asyncio.create_task(second.acquire())
        await asyncio.sleep(61)
        cluster.remove(LEASES, "operator", "default")
        await asyncio.sleep(60)
        assert (keeping.done(), waiting.done(), await holder(cluster)) == (False, False, ("one", 0))
        waiting.cancel()


async def test_a_standby_that_stops_while_it_takes_the_lease_gives_it_back():
    wire = Asked(FakeCluster())
    wire.cut_writes = wire.stores_when_cut = True
    first = elected(wire, "one")
    taking = asyncio.create_task(first.acquire())
    await asyncio.sleep(1)
    taking.cancel()
    wire.cut_writes = False
    assert await holder(wire) == ("one", 0)
    await first.release()
    assert await holder(wire) == ("", 0)


async def test_a_leader_without_the_api_server_stops_without_a_lease_and_says_so(caplog):
    wire = Asked(FakeCluster())
    first = elected(wire, "one")
    async with leading(first):
        wire.cut = True
    await first.release()
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "the Lease was not given up and expires by itself: no answer"
    ]


async def test_a_right_that_is_missing_is_told_once_and_is_a_fault_until_it_is_given(caplog):
    cluster = FakeCluster()
    cluster.faults.append(lambda verb, kind, name: Refused("leases is forbidden: no right to create"))
    first = elected(cluster, "one")
    waiting = asyncio.create_task(first.acquire())
    assert first.fault() == "the Lease default/operator has not been read yet"
    with caplog.at_level(logging.INFO, "modelfleet"):
        await asyncio.sleep(60)
    sentence = "the Lease cannot be used: leases is forbidden: no right to create"
    assert [record.getMessage() for record in caplog.records] == [sentence]
    assert first.fault() == sentence
    cluster.faults.clear()
    await waiting
    assert first.fault() is None


async def test_errors_of_the_api_server_that_pass_are_tried_again_at_the_retry_period():
    cluster = FakeCluster()
    failures = iter(range(3))

    def failing(verb, kind, name):
        if next(failures, None) is not None:
            raise ApiError("etcdserver: leader changed", status=500)

    cluster.faults.append(failing)
    first, began_s = elected(cluster, "one"), clock_s()
    await first.acquire()
    assert clock_s() - began_s == pytest.approx(6, abs=0.1)
