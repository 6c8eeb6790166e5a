"""A ModelDeployment's life on the fake cluster, with an operator that can be killed before and after each API call.

A story is driven by what would drive it on a cluster: an operator reconciles when a watch would tell it of a change,
when its own timer is due and when it has just begun; between its runs the nodes and the garbage collector take steps.
No periodic resync helps it.
"""

import asyncio
import json
import math
import pickle
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from fake_cluster import FakeCluster
from fake_placer import FakePlacer
from modelfleet.api import names
from modelfleet.controller.cluster import ApiError, Cluster, WriteResult
from modelfleet.controller.events import Recorder
from modelfleet.controller.gather import Gatherer
from modelfleet.controller.queue import Done, Retry
from modelfleet.controller.resources import CHILDREN, DEPLOYMENTS
from modelfleet.controller.shell import Parts, Shell
from modelfleet.controller.triggers import Key
from modelfleet.core.placement.project import pinned_node
from modelfleet.core.reconcile import plan
from modelfleet.core.snapshot import Settings

KEY = Key("team", "chat")
PROPAGATION_S = 5.0
_STATE = names.state(KEY.name)
_START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
_MOST_STEPS = 600
_MOVING = ("uid", "resourceVersion", "creationTimestamp", "generation")
_READY = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}]


class Killed(BaseException):
    """The process is gone. No `except Exception` survives it."""


@dataclass
class Fate:
    """Counts the boundaries of API calls (two a call: before and after it) over all processes of a story.

    At those in `deaths` the process is killed; at those in `cuts` it loses the request (before) or the answer (after)
    and goes on. With `writes_only`, reads have no boundaries: between two writes the cluster is the same anyway.
    """

    deaths: frozenset[int] = frozenset()
    cuts: frozenset[int] = frozenset()
    writes_only: bool = False
    passed: int = 0

    def boundary(self) -> None:
        """Passes one. Raises Killed or ApiError."""
        here, self.passed = self.passed, self.passed + 1
        if here in self.deaths:
            raise Killed
        if here in self.cuts:
            raise ApiError("no answer")


class MortalCluster:
    """The cluster as one process sees it. Once that is killed, nothing of it reaches the cluster."""

    def __init__(self, cluster: FakeCluster, fate: Fate, look: Callable[[], None]) -> None:
        self._cluster, self._fate, self._look, self._dead = cluster, fate, look, False

    async def get(self, *args: Any) -> Any:
        return await self._call(lambda: self._cluster.get(*args), reads=True)

    async def list(self, *args: Any) -> Any:
        return await self._call(lambda: self._cluster.list(*args), reads=True)

    async def served(self, group_version: str) -> frozenset[str]:
        return await self._cluster.served(group_version)

    async def create(self, manifest: Any) -> WriteResult:
        return await self._call(lambda: self._cluster.create(manifest))

    async def apply(self, manifest: Any, uid: str) -> WriteResult:
        return await self._call(lambda: self._cluster.apply(manifest, uid))

    async def apply_status(self, manifest: Any) -> WriteResult:
        return await self._call(lambda: self._cluster.apply_status(manifest))

    async def merge(self, *args: Any) -> WriteResult:
        return await self._call(lambda: self._cluster.merge(*args))

    async def delete(self, *args: Any) -> WriteResult:
        return await self._call(lambda: self._cluster.delete(*args))

    async def _call(self, work: Callable[[], Awaitable[Any]], *, reads: bool = False) -> Any:
        counted = not (reads and self._fate.writes_only)
        self._boundary(counted)
        result = await work()
        if not reads:
            self._look()
        self._boundary(counted)
        return result

    def _boundary(self, counted: bool) -> None:
        if self._dead:
            raise Killed
        if counted:
            try:
                self._fate.boundary()
            except Killed:
                self._dead = True
                raise


class Process:
    """One life of the operator: what it has in memory ends with it."""

    def __init__(self, cluster: Cluster, books: FakePlacer) -> None:
        settings = Settings(worker_image="worker:1", propagation_s=PROPAGATION_S)
        self._recorder = Recorder(cluster, "test", _now)
        gatherer = Gatherer(cluster, settings, _now)
        self._shell = Shell(Parts(cluster, gatherer, self._recorder, plan, _now, self._told, books))
        self.bugs: list[str] = []
        self.seen: object = None
        self.wake_at_s = -math.inf  # it lists everything at its start

    async def reconcile(self) -> None:
        """One run, and the events that it made."""
        match await self._shell.reconcile(KEY):
            case Done(again_after_s):
                self.wake_at_s = math.inf if again_after_s is None else _clock_s() + again_after_s
            case Retry():
                self.wake_at_s = _clock_s() + 1.0
            case _:
                self.wake_at_s = math.inf
        await self._recorder.flush()

    def _told(self, result: str, _: float) -> None:
        if result == "bug":
            self.bugs.append(result)


@dataclass
class Guard:
    """What must hold at every moment of a story. Raises AssertionError.

    `floor`: replicas that serve all the time; `ceiling`: replicas that are wanted at most; `plans`: different plans;
    `ranks`: pods of a replica.
    """

    cluster: FakeCluster
    floor: int
    ceiling: int
    plans: int
    ranks: int = 1
    _off_since_s: dict[str, float] = field(default_factory=dict)

    def look(self) -> None:
        """At what is there now."""
        pods = [pod for pod in objects(self.cluster, "pods") if "deletionTimestamp" not in pod["metadata"]]
        by_owner = Counter(_owner(pod) for pod in pods if pod["metadata"]["labels"][names.RANK_LABEL] == "0")
        assert all(count <= self.ceiling + 1 for count in by_owner.values()), f"too many replicas: {by_owner}"
        self._look_at_groups(pods)
        serving = [pod for pod in pods if _ready(pod) and _serves(pod)]
        assert len(serving) >= self.floor, f"{len(serving)} replicas serve"
        for plural in ("configmaps", "controllerrevisions"):
            others = {_STATE, names.promise(KEY.name)}
            pinned = [one for one in objects(self.cluster, plural) if one["metadata"]["name"] not in others]
            assert max(Counter(map(_owner, pinned)).values(), default=0) <= self.plans
        for plural in (child.plural for child in CHILDREN):
            for child in objects(self.cluster, plural):
                assert _owner(child), f"{plural} {child['metadata']['name']} has no owner"
        off = [pod["metadata"]["uid"] for pod in pods if not _serves(pod)]
        self._off_since_s = {uid: self._off_since_s.get(uid, _clock_s()) for uid in off}

    def _look_at_groups(self, pods: list[dict[str, Any]]) -> None:
        """A leader is never lifted before a follower, and no two pods of a group share a node."""
        by_replica: dict[str, list[dict[str, Any]]] = {}
        for pod in pods:
            by_replica.setdefault(_replica(pod), []).append(pod)
        for replica, members in by_replica.items():
            nodes = [node for pod in members if (node := pinned_node(pod))]
            assert len(nodes) == len(set(nodes)), f"two ranks of {replica} share a node"
            gated = [pod for pod in members if pod["spec"].get("schedulingGates")]
            leaders = [pod for pod in members if pod["metadata"]["labels"][names.RANK_LABEL] == "0"]
            assert not gated or all(pod in gated for pod in leaders), f"the leader of {replica} was lifted first"

    def before_write(self, verb: str, kind: str, name: str) -> None:
        """A Ready pod is deleted only after it was out of the Service for the propagation time, unless its group is not
        whole: that answers nobody."""
        if (verb, kind) != ("delete", "Pod"):
            return
        pods = objects(self.cluster, "pods")
        pod = next(pod for pod in pods if pod["metadata"]["name"] == name)
        standing = [
            one for one in pods if "deletionTimestamp" not in one["metadata"] and _replica(one) == _replica(pod)
        ]
        if _ready(pod) and len(standing) == self.ranks:
            since_s = self._off_since_s.get(pod["metadata"]["uid"], math.inf)
            assert _clock_s() - since_s >= PROPAGATION_S, f"pod {name} is deleted while requests may come"


async def live(cluster: FakeCluster, fate: Fate, guard: Guard) -> int:
    """Until nothing moves any more; how often the operator was killed."""
    process, deaths = None, 0
    cluster.faults[:] = [guard.before_write]
    for _ in range(_MOST_STEPS):
        if process is None:
            process = Process(MortalCluster(cluster, fate, guard.look), FakePlacer(cluster))
        noticed = _noticed(cluster)
        if process.seen != noticed or _clock_s() >= process.wake_at_s:
            process.seen = noticed
            try:
                await process.reconcile()
            except Killed:
                process, deaths = None, deaths + 1
                continue
            assert not process.bugs
        elif not _world_steps(cluster) and process.wake_at_s == math.inf:
            return deaths
        guard.look()
        await asyncio.sleep(0.5)
    raise AssertionError(f"not at rest after {_MOST_STEPS} steps; the last writes: {cluster.writes[-10:]}")


def objects(cluster: FakeCluster, plural: str) -> tuple[dict[str, Any], ...]:
    """Everything of a kind in the key's namespace."""
    return cluster.all_of(plural, KEY.namespace)


def picture(cluster: FakeCluster) -> dict[tuple[str, str], Any]:
    """What is there, without what differs from run to run: uids, versions, times."""
    found = {}
    for plural in (DEPLOYMENTS.plural, *(child.plural for child in CHILDREN)):
        for stored in objects(cluster, plural):
            found[plural, stored["metadata"]["name"]] = _without_times(stored)
    return found


def pod_moves(cluster: FakeCluster) -> Counter[tuple[str, str]]:
    """How often each pod was created and deleted by the operator."""
    return Counter((verb, name) for verb, kind, name in cluster.writes if kind == "Pod" and verb != "apply")


def _without_times(stored: Mapping[str, Any]) -> Any:
    plain = pickle.loads(pickle.dumps(dict(stored)))
    for name in _MOVING:
        plain["metadata"].pop(name, None)
    for owner in plain["metadata"].get("ownerReferences", ()):
        owner.pop("uid")
    for condition in plain.get("status", {}).get("conditions", ()):
        condition.pop("lastTransitionTime", None)
    if plain["metadata"]["name"] == _STATE and "data" in plain:
        kept = json.loads(plain["data"].get(names.GROUPS_KEY, "{}"))
        plain["data"] = {key: past["count"] for key, past in kept.get("replicas", {}).items()}  # the rest are clocks
    plain["metadata"].get("annotations", {}).pop(names.PLACEMENT_ANNOTATION, None)  # it tells of the pods placed before
    for part in ("nodeName", "affinity"):  # of equal nodes any is as good
        if plain.get("spec", {}).get(part):
            plain["spec"][part] = "there"
    status = plain.get("status", {})
    status.pop("observedGeneration", None)
    # What it was decided from, and when: a killed operator may have come further than it could tell.
    for field_name in ("from", "at"):
        status.get("scaling", {}).get("lastDecision", {}).pop(field_name, None)
    return plain


def _noticed(cluster: FakeCluster) -> object:
    """What the watches have shown by now: every child's version, and of a ModelDeployment all but its status."""
    children = {
        (plural, stored["metadata"]["name"]): stored["metadata"]["resourceVersion"]
        for plural in ("acceleratorclasses", *(child.plural for child in CHILDREN))
        for stored in cluster.all_of(plural)
    }
    owners = [
        (stored["metadata"]["uid"], stored["metadata"]["generation"]) for stored in objects(cluster, DEPLOYMENTS.plural)
    ]
    return children, owners


def _world_steps(cluster: FakeCluster) -> bool:
    """The scheduler, the kubelets and the garbage collector take a step; whether anything moved."""
    owners = {stored["metadata"]["uid"] for stored in objects(cluster, DEPLOYMENTS.plural)}
    moved = False
    for resource in CHILDREN:
        for stored in objects(cluster, resource.plural):
            name, terminating = stored["metadata"]["name"], "deletionTimestamp" in stored["metadata"]
            if terminating or _owner(stored) not in owners:
                cluster.remove(resource, name, KEY.namespace)
            elif resource.kind != "Pod" or _ready(stored) or stored["spec"].get("schedulingGates"):
                continue
            elif "nodeName" not in stored["spec"]:
                node = {"nodeName": pinned_node(stored)}
                cluster.put({**stored, "spec": {**stored["spec"], **node}, "status": {"phase": "Pending"}})
            else:
                cluster.put({**stored, "status": {"phase": "Running", "conditions": _READY}})
            moved = True
    return moved


def _owner(stored: Mapping[str, Any]) -> str:
    return next((owner["uid"] for owner in stored["metadata"].get("ownerReferences", ()) if owner["controller"]), "")


def _replica(pod: Mapping[str, Any]) -> str:
    labels = pod["metadata"]["labels"]
    return f"{labels[names.REVISION_LABEL]}-{labels[names.REPLICA_LABEL]}"


def _ready(pod: Mapping[str, Any]) -> bool:
    return _READY[1] in pod.get("status", {}).get("conditions", ())


def _serves(pod: Mapping[str, Any]) -> bool:
    return pod["metadata"]["labels"].get(names.SERVING_LABEL) == "true"


def _clock_s() -> float:
    return asyncio.get_running_loop().time()


def _now() -> datetime:
    return _START + timedelta(seconds=_clock_s())
