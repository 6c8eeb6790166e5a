"""The operator is killed, or loses its Lease, again and again while a fleet changes: the end is the same as without."""

import itertools
import os
import random
import signal
import threading
import time

import pytest
from api_faults import refusal
from chaos_proxy import Chaos, Dropped, is_watch, is_write
from fleet_story import clear, parts, play
from forked_operator import ForkedOperator
from kept_operator import kept
from operator_process import chart_rules

from modelfleet_local import kwok
from modelfleet_local.waiting import wait_until

KILLS = 50
SAMPLE = 6  # in a normal run, of a shorter story
SEED = 20261129
# An operator that makes too few requests to reach its moment is killed once it makes none for IDLE_S.
IDLE_S, BEGINS_S = 3.0, 10.0


class Assassin:
    """Kills the operator at a request: before the API server gets it, or before the operator gets the answer."""

    def __init__(self, operator):
        self.operator, self.struck = operator, threading.Event()
        self.at, self.after, self.writes_only, self.seen = 0, False, True, 0
        self.rests_at_s = 0.0

    def aim(self, choose):
        self.struck.clear()
        self.after, self.writes_only = choose.random() < 0.5, choose.random() < 0.8
        self.at, self.seen = choose.randint(1, 4) if self.writes_only else choose.randint(1, 20), 0

    def waits(self):
        """Until it has struck, or the operator makes no requests; whether it has struck."""
        self.rests_at_s = time.monotonic() + BEGINS_S
        while not self.struck.wait(0.05):
            if time.monotonic() > self.rests_at_s:
                return False
        return True

    def strike(self):
        if not self.struck.is_set():
            self.struck.set()
            os.kill(self.operator.process.pid, signal.SIGKILL)

    async def __call__(self, request, forward):
        self.rests_at_s = time.monotonic() + IDLE_S
        if is_watch(request) or self.struck.is_set() or (self.writes_only and not is_write(request)):
            return await forward()
        self.seen += 1
        here = self.seen == self.at
        if here and not self.after:
            self.strike()
            raise Dropped
        answer = await forward()
        if here:
            self.strike()
            raise Dropped
        return answer


@pytest.fixture
def make(api_server, account, fleet, tmp_path):
    """Makes a proxy and an operator behind it, for the test's namespace."""
    made = []

    def both(*arguments):
        chaos = Chaos(api_server.kubeconfig, tmp_path / f"chaos-{len(made)}")
        made.append(chaos)
        config = chaos.kubeconfig(account(chart_rules()))
        return chaos, ForkedOperator(
            config, tmp_path / f"{config.stem}.log", (f"--namespaces={fleet.namespace}", *arguments)
        )

    yield both
    for chaos in made:
        chaos.close()


@pytest.fixture
def room(api_server):
    """Fake nodes with more GPUs than the fleet and its surge need; the label by which a class finds them."""
    label = {"nvidia.com/gpu.product": "roomy"}
    shape = kwok.Shape(labels=label, allocatable={"cpu": "960", "memory": "9Ti", "pods": "400", "nvidia.com/gpu": "80"})
    api_server.api.create("/api/v1/nodes", kwok.node("roomy", shape))
    yield label
    api_server.kubectl("delete", "node", "roomy", "--wait=false")


@pytest.fixture
def story(thorough):
    return parts(whole=thorough)


def undisturbed(operations, fleet):
    for operation in operations:
        operation(fleet)


@pytest.fixture
def expected(make, fleet, room, story):
    """What the story leaves where nobody kills anything."""
    fleet.create_class(nodeSelector=room)
    _, operator = make()
    operator.start()
    pictures = play(fleet, story, lambda operations: undisturbed(operations, fleet))
    clear(fleet)
    assert operator.stop() == 0
    return pictures


def differences(expected, found):
    """By part: what is there in one picture only, or otherwise."""
    return {
        part: {
            what: (expected[part].get(what), found[part].get(what))
            for what in expected[part].keys() | found[part].keys()
            if expected[part].get(what) != found[part].get(what)
        }
        for part in expected
        if expected[part] != found[part]
    }


def test_killed_at_seeded_moments_of_a_fleet_s_life_the_end_is_the_same(expected, make, fleet, thorough, story):
    kills = KILLS if thorough else SAMPLE
    choose = random.Random(SEED)
    chaos, operator = make()
    assassin = Assassin(operator)
    told = []

    def disturb(operations):
        """Deals the operations out among the part's kills."""
        strikes = kills // len(story)
        for number in range(strikes):
            assassin.aim(choose)
            chaos.fault = assassin
            for operation in operations[number::strikes]:
                operation(fleet)
            idle = not assassin.waits()
            assassin.strike()
            told.append("idle" if idle else "write" if assassin.writes_only else "request")
            wait_until("a new process", lambda: len(keeper.ends) == len(told), timeout_s=60)
        chaos.fault = None

    operator.start()
    with kept(operator) as keeper:
        found = play(fleet, story, disturb)
    print(f"\n{len(keeper.ends)} kills: { ({kind: told.count(kind) for kind in sorted(set(told))}) }")
    assert len(keeper.ends) == kills
    assert differences(expected, found) == {}


def lease_path(fleet):
    return f"/apis/coordination.k8s.io/v1/namespaces/{fleet.namespace}/leases/modelfleet"


def leading(operators):
    """The operator that leads, once one does."""
    wait_until("a leader", lambda: any(leads(one) for one in operators), timeout_s=60)
    return next(one for one in operators if leads(one))


def leads(operator):
    try:
        return operator.finds_port() and operator.metric("leader") == 1
    except OSError:
        return False


async def no_lease(request, forward):
    """The API server answers everything but what concerns Leases."""
    return refusal(503) if "/leases" in request.path else await forward()


def bounce_by_deleting(fleet, operators, chaos):
    fleet.kubectl("delete", "lease", "modelfleet")


def bounce_by_editing(fleet, operators, chaos):
    fleet.api.patch(lease_path(fleet), {"spec": {"holderIdentity": "somebody"}})


def bounce_by_freezing(fleet, operators, chaos):
    process = leading(operators).process
    process.send_signal(signal.SIGSTOP)
    time.sleep(18)
    process.send_signal(signal.SIGCONT)


def bounce_by_cutting(fleet, operators, chaos):
    behind = chaos[operators.index(leading(operators))]
    behind.fault = no_lease
    time.sleep(14)
    behind.fault = None


def bounce_by_killing(fleet, operators, chaos):
    leading(operators).kill()


BOUNCES = (bounce_by_deleting, bounce_by_editing, bounce_by_freezing, bounce_by_cutting, bounce_by_killing)


@pytest.mark.thorough
def test_with_two_operators_and_a_lease_that_bounces_the_end_is_the_same(expected, make, fleet, story):
    arguments = ("--leader-elect=true", f"--lease-namespace={fleet.namespace}", "--lease-name=modelfleet")
    chaos, operators = zip(make(*arguments), make(*arguments), strict=True)
    bounces = iter(BOUNCES)
    for operator in operators:
        operator.start()
    with kept(operators[0]) as first, kept(operators[1]) as second:

        def disturb(operations):
            """Some operations, a bounce amid them, the rest."""
            leading(operators)
            half = len(operations) // 2
            undisturbed(operations[:half], fleet)
            next(bounces)(fleet, operators, chaos)
            undisturbed(operations[half:], fleet)
            leading(operators)

        found = play(fleet, story, disturb)
    holders = fleet.api.get(lease_path(fleet))["spec"]["leaseTransitions"]
    print(f"\nthe Lease bounced {len(BOUNCES)} times; transitions {holders}, ends {first.ends} and {second.ends}")
    assert next(bounces, None) is None
    assert set(itertools.chain(first.ends, second.ends)) <= {5, -signal.SIGKILL}
    assert differences(expected, found) == {}
