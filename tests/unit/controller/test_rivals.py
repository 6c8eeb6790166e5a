"""Installations that share a namespace, on the fake cluster in virtual time: one of them leads."""

import asyncio
import logging
import random
from datetime import UTC, datetime

import pytest

from fake_cluster import FakeCluster
from modelfleet.api import names
from modelfleet.controller.cluster import Refused
from modelfleet.controller.lease import Candidate, Elected
from modelfleet.controller.resources import LEASES
from modelfleet.controller.rivals import Rivals

pytestmark = pytest.mark.looptime(start=1000)

SETTLED_S = 60.0


def clock_s():
    return asyncio.get_running_loop().time()


def now():
    return datetime.fromtimestamp(clock_s(), UTC)


def installed(cluster, release, *namespaces, identity="operator_1"):
    """The leadership of one operator process of a release in a namespace of its own."""
    rivals = Rivals(cluster, (release, release), namespaces)
    return Elected(cluster, Candidate(release, release, f"{release}-{identity}"), now, rivals=rivals)


@pytest.fixture
def run():
    """Starts a leadership: it acquires and then keeps; returns the task. All are ended afterwards."""
    tasks = []

    def start(leadership):
        async def lead():
            await leadership.acquire()
            await leadership.keep()

        tasks.append(asyncio.create_task(lead()))
        return tasks[-1]

    yield start
    for task in tasks:
        task.cancel()


@pytest.fixture
def cluster():
    return FakeCluster("one", "two", "three")


@pytest.mark.parametrize(
    "first, second, both",
    [
        pytest.param((), (), False, id="all namespaces twice: one leads"),
        pytest.param((), ("chat",), False, id="all namespaces and one of them: one leads"),
        pytest.param(("chat",), (), False, id="one namespace and all of them: one leads"),
        pytest.param(("chat", "search"), ("search", "voice"), False, id="one namespace in common: one leads"),
        pytest.param(("chat",), ("search", "voice"), True, id="no namespace in common: both lead"),
    ],
)
async def test_two_installations(cluster, run, first, second, both):
    one, two = installed(cluster, "one", *first), installed(cluster, "two", *second)
    run(one)
    await asyncio.sleep(SETTLED_S)
    run(two)
    await asyncio.sleep(SETTLED_S)
    assert (one.leads, two.leads) == (True, both)
    assert (one.fault() is None, two.fault() is None) == (True, both)


async def test_the_one_that_does_not_lead_says_why_once_and_writes_nothing(cluster, run, caplog):
    run(installed(cluster, "one", "chat", "search"))
    await asyncio.sleep(SETTLED_S)
    refused = installed(cluster, "two")
    with caplog.at_level(logging.INFO, "modelfleet"):
        run(refused)
        await asyncio.sleep(SETTLED_S)
    sentence = (
        "not leading: namespaces chat, search are served by another installation of modelfleet: one-operator_1 holds"
        " the Lease one/one; uninstall one of the two, or give each its own namespaces (the chart's"
        " operator.namespaces, --namespaces)"
    )
    assert refused.fault() == sentence
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [("WARNING", sentence)]
    assert await cluster.get(LEASES, "two", "two") is None


async def test_it_takes_over_soon_when_the_other_is_uninstalled(cluster, run):
    one, two = installed(cluster, "one"), installed(cluster, "two")
    task = run(one)
    await asyncio.sleep(SETTLED_S)
    run(two)
    await asyncio.sleep(SETTLED_S)
    task.cancel()
    await one.release()
    await asyncio.sleep(5)
    assert (two.leads, two.fault()) == (True, None)


async def test_it_takes_over_from_one_that_was_killed_only_when_that_lease_has_expired(cluster, run):
    one, two = installed(cluster, "one"), installed(cluster, "two")
    task = run(one)
    await asyncio.sleep(SETTLED_S)
    run(two)
    await asyncio.sleep(SETTLED_S)
    task.cancel()
    while not two.leads:
        assert one.write_left_s() >= -4 - 2  # the renewal last seen, two pauses and what its holder had left
        await asyncio.sleep(0.1)
    assert one.write_left_s() <= 0


async def test_a_lease_of_an_earlier_version_that_is_taken_over_is_marked(cluster, run):
    spec = {"holderIdentity": "", "leaseDurationSeconds": 1}
    place = {"name": "one", "namespace": "one"}
    cluster.put({"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": place, "spec": spec})
    run(installed(cluster, "one", "chat"))
    await asyncio.sleep(SETTLED_S)
    two = installed(cluster, "two")
    run(two)
    await asyncio.sleep(SETTLED_S)
    assert two.leads is False
    stored = await cluster.get(LEASES, "one", "one")
    assert stored["metadata"]["annotations"] == {names.SERVES_ANNOTATION: "chat"}


async def test_a_lease_that_does_not_say_what_is_served_counts_as_serving_everything(cluster, run):
    spec = {"holderIdentity": "somebody", "leaseDurationSeconds": 15}
    place = {"name": "one", "namespace": "one", "labels": {names.LEASE_LABEL: names.LEADER_LEASE}}
    cluster.put({"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": place, "spec": spec})
    two = installed(cluster, "two", "search")
    run(two)
    await asyncio.sleep(5)
    assert "namespace search is served by another installation of modelfleet: somebody holds" in two.fault()
    await asyncio.sleep(15)
    assert two.leads


class Slow:
    """The fake cluster behind a network that takes its time, each request another."""

    def __init__(self, cluster, seed):
        self._cluster, self._random = cluster, random.Random(seed)

    def __getattr__(self, name):
        async def request(*args):
            await asyncio.sleep(self._random.choice((0.001, 0.01, 0.3, 1.0)))
            answer = await getattr(self._cluster, name)(*args)
            await asyncio.sleep(self._random.choice((0.001, 0.01, 0.3)))
            return answer

        return request


@pytest.mark.parametrize("seed", range(8))
async def test_of_three_that_come_and_go_on_a_slow_network_never_two_may_write_and_soon_one_may(run, seed):
    chance = random.Random(seed)
    slow = Slow(FakeCluster("one", "two", "three"), seed)
    alive = {}

    def start(release):
        leadership = installed(slow, release, identity=f"operator_{chance.random()}")
        alive[release] = (leadership, run(leadership))

    for release in ("one", "two", "three"):
        start(release)
    everyone = [leadership for leadership, _ in alive.values()]
    for _ in range(6):
        for _ in range(200):
            await asyncio.sleep(0.2)
            writers = [each for each in everyone if each.write_left_s() > 0]
            assert len(writers) <= 1
        assert len(writers) == 1
        release = chance.choice(sorted(alive))
        leadership, task = alive.pop(release)
        task.cancel()
        if chance.random() < 0.5:
            await leadership.release()
        start(release)
        everyone.append(alive[release][0])


MOMENTS = [step * 0.25 for step in range(16)]  # a renewal comes every 2 s, a look after 2 to 4 s


@pytest.mark.parametrize("moment_s", MOMENTS)
async def test_a_lease_that_is_deleted_by_hand_still_counts_for_as_long_as_its_leader_may_write(cluster, run, moment_s):
    one, two = installed(cluster, "one"), installed(cluster, "two")
    run(one)
    await asyncio.sleep(SETTLED_S)
    run(two)
    await asyncio.sleep(SETTLED_S + moment_s)
    cluster.remove(LEASES, "one", "one")
    for _ in range(100):
        await asyncio.sleep(0.2)
        assert (one.write_left_s() > 0) + (two.write_left_s() > 0) <= 1
    assert (one.leads, two.leads) == (True, False)


async def test_one_that_cannot_make_its_lease_anew_is_followed_only_when_it_may_no_longer_write(cluster, run):
    one, two = installed(cluster, "one"), installed(cluster, "two")
    run(one)
    await asyncio.sleep(SETTLED_S)
    run(two)
    await asyncio.sleep(SETTLED_S)
    cluster.remove(LEASES, "one", "one")
    cluster.faults.append(lambda verb, kind, name: Refused("it is being terminated") if name == "one" else None)
    for _ in range(150):
        await asyncio.sleep(0.2)
        assert (one.write_left_s() > 0) + (two.write_left_s() > 0) <= 1
    assert two.leads


@pytest.mark.parametrize("moment_s", MOMENTS)
async def test_a_leader_whose_lease_was_deleted_looks_for_rivals_when_it_makes_it_anew(cluster, run, moment_s):
    one, two = installed(cluster, "one"), installed(cluster, "two")
    task = run(one)
    await asyncio.sleep(SETTLED_S + moment_s)
    cluster.remove(LEASES, "one", "one")
    run(two)  # it never saw the Lease
    await asyncio.sleep(10)
    assert task.done() == two.leads
    assert one.leads != two.leads
