"""Runs a world through the operator's own loop on the fake cluster: gather, decide, execute, report, until quiet."""

import asyncio
import json
import logging
import sys
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any

from fuzz_checks import check, require
from fuzz_worlds import NAMESPACE, Case

from builders import SETTINGS, START, cluster_view
from fake_cluster import FakeCluster
from fake_placer import FakePlacer
from modelfleet.api import names
from modelfleet.controller.cluster import Refused, WriteResult
from modelfleet.controller.events import Recorder
from modelfleet.controller.gather import Gatherer
from modelfleet.controller.queue import Done
from modelfleet.controller.resources import DEPLOYMENTS, Resource
from modelfleet.controller.shell import Parts, Shell
from modelfleet.controller.triggers import Key
from modelfleet.core import raw, reconcile
from modelfleet.core.effects import Outcome
from modelfleet.core.snapshot import World

SPARE_ROUNDS = 12
"""Rounds that a world may take to become quiet, beside one for each object in it."""

AGE_S = 60.0  # of a world when it is looked at first
IDLE_ROUNDS = 2
"""So many in a row without a write are quiet: what waits for a time is looked at when that has come."""

_LISTED = {
    "Pod": "pods",
    "Service": "services",
    "ConfigMap": "config_maps",
    "ControllerRevision": "revisions",
    "Job": "jobs",
    "PodDisruptionBudget": "budgets",
    "NetworkPolicy": "policies",
}
"""Where a world lists a kind of children; kinds of a later version may stand here before it."""

_LONGEST_SELECTOR = 63  # a label's value; a longer one in a selector is refused by the server
_TERMINATING = "is forbidden: unable to create new content in namespace team because it is being terminated"


class Clock(asyncio.SelectorEventLoop):
    """An event loop whose clock can be put forward."""

    shift_s = 0.0

    def time(self) -> float:
        return super().time() + self.shift_s


class Seeded(FakeCluster):
    """A fake cluster that begins with objects as they are, and answers as the server does where a world says so."""

    def __init__(self, case: Case) -> None:
        super().__init__(NAMESPACE, "another-team")
        self.kinds: set[str] = set()
        self._case = case
        self.faults.append(self._answer)
        for number, item in enumerate(json.loads(json.dumps(case.objects))):
            own = {"uid": f"uid-{number}", "generation": 1, "creationTimestamp": START.isoformat()}
            item["metadata"] = {**own, **item["metadata"], "resourceVersion": f"{number}"}
            self._objects[self._address(item)] = item

    async def list(
        self, resource: Resource, namespace: str | None = None, labels: str | None = None
    ) -> tuple[dict[str, Any], ...]:
        value = (labels or "").partition("=")[2]
        require(len(value) <= _LONGEST_SELECTOR, f"a selector with a value of {len(value)} characters")
        self.kinds.add(resource.plural)
        return await super().list(resource, namespace, labels)

    def of_others(self, uid: str) -> dict[Any, str]:
        """What this ModelDeployment has no business with, as text."""
        return {
            address: json.dumps(item, sort_keys=True)
            for address, item in self._objects.items()
            if raw.controller(item).get("uid") != uid and raw.uid(item) != uid and address[0] != "events"
        }

    def _answer(self, verb: str, kind: str, name: str) -> WriteResult | None:
        if kind == names.DEPLOYMENT_KIND or kind == "Event":
            return None
        if self._case.terminating and verb == "create":
            return Refused(f'{kind} "{name}" {_TERMINATING}')
        return Refused(f'{kind} "{name}" is forbidden: exceeded quota') if kind in self._case.refused else None


class Bench:
    """The operator's parts around one world; every decision is checked."""

    def __init__(self, case: Case, loop: Clock) -> None:
        self._case, self._loop = case, loop
        self.cluster = Seeded(case)
        self.decisions = 0
        self._begun_s = loop.time()
        gatherer = Gatherer(self.cluster, SETTINGS, self.now)
        self.recorder = Recorder(self.cluster, "fuzz", self.now)
        self.shell = Shell(
            Parts(self.cluster, gatherer, self.recorder, self.decide, self.now, self._observe, FakePlacer(self.cluster))
        )

    def now(self) -> datetime:
        """This operator's clock, which may be far from the cluster's; the world has stood for a while."""
        stood_s = AGE_S + round(self._loop.time() - self._begun_s, 3)
        return START + timedelta(seconds=self._case.skew_s + stood_s)

    def decide(self, world: World) -> Outcome:
        """The real decision, and the promises about it."""
        outcome = reconcile.plan(world)
        check(world, outcome)
        self.decisions += 1
        return outcome

    def _observe(self, result: str, _: float) -> None:
        if result in ("bug", "api_error"):
            error = sys.exc_info()[1]
            assert error is not None
            raise error

    async def settle(self) -> None:
        """Reconciles until nothing is written any more, and once more at a later time."""
        key = Key(NAMESPACE, self._case.name)
        limit, idle = SPARE_ROUNDS + len(self._case.objects), 0
        for _ in range(limit):
            before = len(self.cluster.writes)
            result = await self.shell.reconcile(key)
            idle = idle + 1 if len(self.cluster.writes) == before else 0
            if idle == IDLE_ROUNDS:
                break
            self._loop.shift_s += (result.again_after_s if isinstance(result, Done) else None) or 1.0
        else:
            require(self._may_go_on(), f"not quiet after {limit} rounds; {self.cluster.writes[-6:]}")
        await self.recorder.flush()
        self._loop.shift_s += 7.0
        before = len(self.cluster.writes)
        await self.shell.reconcile(key)
        later = self.cluster.writes[before:]
        require(not later or self._may_go_on(), f"an unchanged world is written to: {later}")

    def _may_go_on(self) -> bool:
        """Whether this world is never quiet for a good reason: names of others are looked at again and again, what the
        server refuses is tried again."""
        return bool(self._case.refused or self._case.terminating)


async def _run(case: Case, loop: Clock) -> Bench:
    bench = Bench(case, loop)
    uid = raw.uid(case.deployment)
    before = bench.cluster.of_others(uid)
    await bench.settle()
    after = bench.cluster.of_others(uid)
    changed = [address for address, text in before.items() if after.get(address) != text]
    require(not changed, f"objects of others are touched: {changed}")
    stored = await bench.cluster.get(DEPLOYMENTS, case.name, NAMESPACE)
    require(stored is not None, "the ModelDeployment is gone")
    require(bench.decisions, "nothing was decided")
    return bench


def run(case: Case, loop: Clock) -> Bench:
    """Runs a world until it is quiet, and gives what it ran on. Raises whatever went wrong."""
    logging.disable(logging.CRITICAL)
    try:
        return loop.run_until_complete(_run(case, loop))
    finally:
        logging.disable(logging.NOTSET)


def world_of(case: Case) -> World:
    """The world as a gatherer would show it that read every list without looking at labels."""
    known = {field.name for field in fields(World)}
    lists = {
        field: tuple(item for item in case.objects[1:] if item["kind"] == kind)
        for kind, field in _LISTED.items()
        if field in known
    }
    classes = {raw.name(item): item for item in case.objects[1:] if item["kind"] == names.CLASS_KIND}
    return World(
        deployment=case.deployment,
        classes={name: item for name, item in classes.items() if name},
        cluster=cluster_view({"one": 100, "two": 100}),
        settings=SETTINGS,
        now=START + timedelta(seconds=case.skew_s),
        **lists,
    )


def decide(case: Case) -> None:
    """Decides on a world in which hardly anything is promised, without the gatherer. Raises whatever went wrong."""
    world = world_of(case)
    check(world, reconcile.plan(world))
