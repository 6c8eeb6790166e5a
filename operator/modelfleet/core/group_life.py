"""When a replica is given up as a whole and made anew, and which nodes are in doubt then. Pure.

| what is observed | what is done |
| --- | --- |
| a rank of a group ended, is asked to end, or is gone after the group began | the whole group ends |
| a group dies in place again and again for a reason that a new start may mend | the whole group ends |
| a group that has its nodes and weights does not serve by its deadline (group_clock.py) | the whole group ends |
| a group does not serve, and a node of it is not ready or gone | the whole group ends: nothing starts there again |
| a placed replica gets no node: what was free is held by somebody else now | it ends, and the node is in doubt |
| an unpinned one gets no node, and nobody brings one by BUY_S | it ends |
| the kubelet refuses a rank that never ran | the group ends, and the node is in doubt |
| its node is the cause (a faulty accelerator), and others have room | it ends, and the node is in doubt |

A group that ended is made anew in its slot after a back-off: at once, then 10 s, doubled up to BACKOFF_MOST_S. After
TRIES_HERE ends the node of the rank that failed is in doubt too, so that the replica moves to others if there are any;
where a start was only too long and no rank said why, one rank's node after another. A node is in doubt until DOUBT_S
after the replica is due. Counts and doubts stand in NAME-state; how long a count stays says `_that_count`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from modelfleet.api.reasons import Reason
from modelfleet.core import raw
from modelfleet.core.group_clock import Clock, clock_of, passed_s
from modelfleet.core.groups import Replica
from modelfleet.core.plan import Plan
from modelfleet.core.pods import PodView, elapsed_s

BIND_S = 20.0
"""How long the scheduler is waited for to bind a pod that was pinned where there was room."""

BUY_S = 900.0
"""How long an autoscaler is waited for to bring a node: large machines take up to ten minutes to boot."""

BACKOFF_FIRST_S, BACKOFF_MOST_S = 10.0, 300.0

TRIES_HERE = 3
"""After so many ends of the same replica its failing rank's node is taken for the cause."""

DOUBT_S = 300.0
"""How long a node stays in doubt once the replica may be made anew."""

FORGET_S = 1800.0
"""A replica that has served for so long begins its count anew."""

UNBROUGHT_S = 1800.0
"""How long nobody is expected to bring a node of a class of which none came."""

_SAME_TIME_S = 5.0  # what our clock and the API server's may differ by

_MENDED_BY_A_START = {
    Reason.ENGINE_DIED,
    Reason.WORKER_FAILED,
    Reason.REPLICA_LOST,
    Reason.ENGINE_START_TIMEOUT,
    Reason.GROUP_MEMBER_LOST,
    Reason.ENGINE_HUNG,
}
_OF_A_CLAIM = "persistentvolumeclaim"
"""In kube-scheduler's words about a claim that is not there, not bound, or going: no other node would do better, and
the pod is bound when the claim is mended."""

_REFUSED_BY_KUBELET = ("OutOf", "UnexpectedAdmissionError", "NodeAffinity", "TopologyAffinityError")
_ENTRIES = 256  # a deployment has fewer replicas that fail at once; a damaged or huge entry is not read on


@dataclass(frozen=True, kw_only=True)
class Past:
    """What NAME-state holds of one replica: how often it ended, when last, the uids of its pods then, and why.
    `unbrought` is the class of which nobody brought it a node; empty where that was not the cause."""

    count: int
    at: datetime
    pods: frozenset[str] = frozenset()
    why: str = ""
    unbrought: str = ""

    @property
    def due_at(self) -> datetime:
        """When it is made anew."""
        wait_s = 0.0 if self.count < 2 else min(BACKOFF_MOST_S, BACKOFF_FIRST_S * 2.0 ** min(self.count - 2, 30))
        return self.at + timedelta(seconds=wait_s)


@dataclass(frozen=True, kw_only=True)
class Life:
    """What came of a look at all replicas. `ends` are to be deleted now, with the sentence why, by uid; `backing_off`
    are slots of the goal that wait; `avoid` are nodes in doubt; `unbrought` are classes of which
    nobody brought a node lately. `kept` is what NAME-state is to hold; None leaves it as
    it is."""

    ends: tuple[Replica, ...] = ()
    whys: Mapping[str, str] = field(default_factory=dict)
    backing_off: Mapping[int, Past] = field(default_factory=dict)
    avoid: frozenset[str] = frozenset()
    unbrought: frozenset[str] = frozenset()
    kept: Mapping[str, Any] | None = None
    wake_after_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Watched:
    """What is looked at. `goal` is the name of the wanted revision, `kept` what NAME-state holds of this module;
    `refused` are the uids of pods that a kubelet did not take, `lost` are nodes that are not ready or gone. `elsewhere`
    are the uids of replicas at whose node something is wrong and that would have room on others."""

    fleet: tuple[Replica, ...]
    plans: Mapping[str, Plan]
    goal: str
    replicas: int
    kept: Mapping[str, Any]
    refused: frozenset[str]
    lost: frozenset[str] = frozenset()
    elsewhere: frozenset[str] = frozenset()
    now: datetime


def decide_life(watched: Watched) -> Life:
    """Which replicas end, which slots wait, which nodes are in doubt."""
    kept, doubtful = _read(watched)
    before = _that_count(watched, kept)
    pasts, counted = dict(before), frozenset[str]().union(*(past.pods for past in kept.values()))
    ends: list[Replica] = []
    whys: dict[str, str] = {}
    for replica in watched.fleet:
        why = _why_it_ends(watched, replica)
        if why is None or replica.revision is None:
            continue
        ends.append(replica)
        whys[replica.uid] = why
        uids = frozenset(pod.uid for pod in replica.pods)
        if replica.revision != watched.goal or counted & uids:
            continue  # it is not made anew, or it is counted and its pods are on their way out
        count = 1 + _inherited(watched, replica, before, pasts)
        past = Past(count=count, at=watched.now, pods=uids, why=why[:200], unbrought=_unbrought(watched, replica))
        pasts[_key(replica)] = past
        doubtful |= dict.fromkeys(_doubtful(watched, replica, count), past.due_at + timedelta(seconds=DOUBT_S))
    written = _written(pasts, doubtful)
    waiting = _backing_off(watched, pasts, {replica.uid for replica in ends})
    moments = [*(past.due_at for past in waiting.values()), *doubtful.values()]
    return Life(
        ends=tuple(ends),
        whys=whys,
        backing_off=waiting,
        avoid=frozenset(doubtful),
        unbrought=frozenset(p.unbrought for p in pasts.values() if _age_s(watched, p) < UNBROUGHT_S) - {""},
        kept=written if written != _plain(watched.kept) else None,
        wake_after_s=_earliest([*((at - watched.now).total_seconds() for at in moments), *_deadlines(watched)]),
    )


def _that_count(watched: Watched, pasts: Mapping[str, Past]) -> dict[str, Past]:
    """The pasts that still count, each under the key of the replica that was made in place of the one that ended.

    | what stands there | its past |
    | --- | --- |
    | a replica that has served for FORGET_S | is forgotten |
    | one that has not, however long its start may take | counts |
    | none, and one was made since in another slot, because its own was taken | is that one's |
    | one that was asked to end and has not yet | counts |
    | none | counts for FORGET_S |
    """
    owners = {_key(each): each for each in watched.fleet if each.revision is not None and not each.terminating}
    ending = {_key(each) for each in watched.fleet if each.terminating}
    heirs = [each for key, each in owners.items() if each.revision == watched.goal and key not in pasts]
    counting: dict[str, Past] = {}
    for key, past in sorted(pasts.items(), key=lambda item: (item[1].at, item[0])):
        owner = owners.get(key)
        if owner is None and _is_of(watched, key):
            owner = max((each for each in heirs if _follows(each, past)), key=_made_at, default=None)
        if owner is not None and owner in heirs:
            heirs.remove(owner)
        if owner is not None:
            counting |= {} if _has_lasted(watched, owner) else {_key(owner): past}
        elif key in ending or _age_s(watched, past) < FORGET_S:
            counting[key] = past
    return counting


def _follows(replica: Replica, past: Past) -> bool:
    """It was made after that end."""
    return replica.created_at is not None and _made_at(replica) >= past.due_at.timestamp() - _SAME_TIME_S


def _made_at(replica: Replica) -> float:
    return replica.created_at.timestamp() if replica.created_at is not None else 0.0


def _has_lasted(watched: Watched, replica: Replica) -> bool:
    since = replica.leader.ready_since if replica.ready and replica.leader is not None else None
    return since is not None and passed_s(since, watched.now) >= FORGET_S


def _age_s(watched: Watched, past: Past) -> float:
    """Seconds since it ended."""
    return (watched.now - past.at).total_seconds()


def _inherited(watched: Watched, replica: Replica, before: Mapping[str, Past], pasts: dict[str, Past]) -> int:
    """How often the replica has ended before: by its own past, else by that of a slot where nothing stands, because one
    that ends is made anew in another slot while its own is taken. The count is moved to it."""
    standing = {_key(other) for other in watched.fleet if not other.terminating and other is not replica}
    free = {
        key: past.count for key, past in before.items() if key in pasts and key not in standing and _is_of(watched, key)
    }
    if not free:
        return 0
    most = max(free, key=lambda key: (key == _key(replica), free[key], key))
    return pasts.pop(most).count


def _is_of(watched: Watched, key: str) -> bool:
    return key.startswith(f"{watched.goal}-") and key.removeprefix(f"{watched.goal}-").isdecimal()


def is_refused_by_kubelet(pod: Any) -> bool:
    """A raw pod that a kubelet did not take: what placement saw as free was not."""
    reason = raw.text(pod, "status", "reason")
    return raw.text(pod, "status", "phase") == "Failed" and reason.startswith(_REFUSED_BY_KUBELET)


def _why_it_ends(watched: Watched, replica: Replica) -> str | None:
    """The sentence why the whole replica is given up; None while it is not."""
    if replica.terminating:
        return None
    unbound = _unbound(replica)
    if unbound is not None:
        pod, limit_s = unbound
        if elapsed_s(pod.unschedulable_since, watched.now) < limit_s:
            return None
        where = f"on node {pod.node}, which was free" if pod.node else f"and no node came within {limit_s:.0f} s"
        return f"pod {pod.name} finds no room {where}: {pod.unschedulable.rstrip('. ')}"
    if any(pod.uid in watched.refused for pod in replica.pods):
        return replica.failure.message if replica.failure else "a kubelet refused it"
    if replica.uid in watched.elsewhere and replica.failure is not None and replica.culprit is not None:
        return f"node {replica.culprit.node} is at fault and others have room: {replica.failure.message}"
    # One pod that ends is replaced by the step.
    return None if replica.size == 1 else _why_group_ends(watched, replica)


def _why_group_ends(watched: Watched, replica: Replica) -> str | None:
    if replica.finished:
        return replica.failure.message if replica.failure else "a rank of it ended"
    away = next((pod for pod in replica.pods if pod.placed and pod.node in watched.lost and not replica.ready), None)
    if away is not None:
        return f"node {away.node} of rank {away.rank} is not ready"
    failure = replica.failure
    if failure is not None and replica.hopeless and failure.reason in _MENDED_BY_A_START:
        return f"it does not come up in place: {failure.message}"
    clock = _clock(watched, replica)
    if clock is not None and clock.left_s <= 0:
        return clock.late
    return None


def _unbound(replica: Replica) -> tuple[PodView, float] | None:
    """The first rank that the scheduler finds no node for, and how long that is borne."""
    pod = replica.stuck
    if pod is None or pod.gates or pod.revision is None or _OF_A_CLAIM in pod.unschedulable.lower():
        return None
    return (pod, BIND_S) if pod.node else (pod, BUY_S)


def _unbrought(watched: Watched, replica: Replica) -> str:
    """The class of a replica that ends because nobody brought a node for it; empty where that is not why."""
    unbound, plan = _unbound(replica), watched.plans.get(replica.pool or "")
    return plan.class_name if plan is not None and unbound is not None and not unbound[0].node else ""


def _clock(watched: Watched, replica: Replica) -> Clock | None:
    return clock_of(replica, watched.plans.get(replica.pool or ""), watched.now)


def _deadlines(watched: Watched) -> Iterator[float]:
    for replica in watched.fleet:
        if replica.terminating:
            continue
        unbound = _unbound(replica)
        if unbound is not None:
            yield unbound[1] - elapsed_s(unbound[0].unschedulable_since, watched.now)
        if (clock := _clock(watched, replica)) is not None:
            yield clock.left_s


def _doubtful(watched: Watched, replica: Replica, count: int) -> Iterator[str]:
    """Nodes that what just ended speaks against."""
    for pod in replica.pods:
        if pod.node and (pod.uid in watched.refused or (pod.unschedulable and not pod.placed)):
            yield pod.node
    if count >= TRIES_HERE or replica.uid in watched.elsewhere:
        suspect = replica.culprit or (replica.pods[count % replica.size] if _is_late(watched, replica) else None)
        if suspect is not None and suspect.node:
            yield suspect.node


def _is_late(watched: Watched, replica: Replica) -> bool:
    """All its ranks are there, and its time is over."""
    clock = _clock(watched, replica) if replica.complete else None
    return clock is not None and clock.left_s <= 0


def _backing_off(watched: Watched, pasts: Mapping[str, Past], ending: set[str]) -> dict[int, Past]:
    """Slots of the goal whose replica is to be made anew and is not due. Of more than are missing only the first count:
    where fewer are wanted now, nobody waits for the rest."""
    standing = [
        replica
        for replica in watched.fleet
        if replica.revision == watched.goal and not replica.terminating and replica.uid not in ending
    ]
    taken = {replica.slot for replica in standing}
    ended = sorted(
        (past.due_at, int(key.rpartition("-")[2]), past) for key, past in pasts.items() if _is_of(watched, key)
    )
    missing = max(0, watched.replicas - len(standing))
    first = [each for each in ended if each[1] not in taken][:missing]
    return {slot: past for due, slot, past in first if due > watched.now}


def _key(replica: Replica) -> str:
    return f"{replica.revision}-{replica.slot}"


def _read(watched: Watched) -> tuple[dict[str, Past], dict[str, datetime]]:
    """What is kept."""
    pasts = {}
    for key, item in list(raw.mapping(watched.kept, "replicas").items())[:_ENTRIES]:
        at = raw.instant(item, "at")
        if at is not None and (watched.now - at).total_seconds() > -60.0:
            count = max(1, raw.integer(item, "count", default=1))
            uids = raw.at(item, "pods")
            pods = frozenset(map(str, uids)) if isinstance(uids, list) else frozenset()
            unbrought = raw.text(item, "unbrought")
            pasts[str(key)] = Past(count=count, at=at, pods=pods, why=raw.text(item, "why"), unbrought=unbrought)
    return pasts, doubts(watched.kept, watched.now)


def doubts(kept: Mapping[str, Any], now: datetime) -> dict[str, datetime]:
    """The nodes in doubt by what NAME-state holds, and until when."""
    found = {}
    for node in list(raw.mapping(kept, "doubtful"))[:_ENTRIES]:
        until = raw.instant(kept, "doubtful", node)
        if until is not None and 0 < (until - now).total_seconds() <= BACKOFF_MOST_S + DOUBT_S + 60.0:
            found[str(node)] = until
    return found


def _written(pasts: Mapping[str, Past], doubts: Mapping[str, datetime]) -> dict[str, Any]:
    said = {
        key: {"count": past.count, "at": _text(past.at), "pods": sorted(past.pods), "why": past.why}
        | ({"unbrought": past.unbrought} if past.unbrought else {})
        for key, past in sorted(pasts.items())
    }
    until = {node: _text(at) for node, at in sorted(doubts.items())}
    return {key: part for key, part in (("replicas", said), ("doubtful", until)) if part}


def _plain(kept: Mapping[str, Any]) -> dict[str, Any]:
    return {str(key): part for key, part in kept.items()}


def _text(at: datetime) -> str:
    return at.isoformat()


def _earliest(times_s: Iterable[float]) -> float | None:
    return min((time for time in times_s if time > 0), default=None)
