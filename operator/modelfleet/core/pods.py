"""What a raw pod says about itself. Pure; no shape of a pod raises.

Revision, slot and rank come from the pod's name, which nobody can edit, not from labels, which anybody can.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from typing import Any

from modelfleet.api import names
from modelfleet.api.values import Quantity
from modelfleet.core import raw
from modelfleet.core.beginning import Beginning, beginning
from modelfleet.core.failures import Failure, pod_failure, worker_status
from modelfleet.core.placement.project import pinned_node

_SKEW_S = 60.0  # two clocks that differ more say nothing about an age
_NAME = re.compile(r".-([0-9a-f]{8})-(0|[1-9][0-9]{0,5})(?:-([1-9][0-9]{0,3}))?$")
_LACK = re.compile(r"Insufficient ([A-Za-z0-9./_-]*[A-Za-z0-9])")
_POD_SLOTS = "pods"
_NO_POD_SLOT = "Too many pods"
_PREEMPTION = re.compile(r"\s*(preemption|no new claims to deallocate):?.*", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class PodView:
    """One pod as it is observed; it is rank `rank` of a replica.

    `end_by`: when its grace is over, once it was asked to end; `grace_s`: how long that is.
    `revision` and `slot` are None for a pod whose name is not one that we give. `serving`: the label that the Service
    selects is on. `unschedulable`: the scheduler's words where it found no node, else empty; `lacks`: what it names as
    insufficient. `failure`: why it is not Ready, if something went wrong. `requests`: what it takes of a node, by
    resource name, in CPU cores, bytes, accelerators; one `pods`. `gates`: the scheduling gates that it waits for;
    `node`: where it is, or where its affinity pins it, else empty. `running`: its worker runs. `started`: it ran at
    least once. `scheduled_at`: when it got its node;
    `unready_since`: since when it is not Ready, None while it is; `ready_since`: since when it is. `was_ready`: it is
    not, and has been. `restarted`: its worker's container was started again.
    """

    name: str
    uid: str
    revision: str | None
    slot: int | None
    ready: bool
    serving: bool
    terminating: bool
    finished: bool
    placed: bool
    unschedulable: str = ""
    unschedulable_since: datetime | None = None
    lacks: tuple[str, ...] = ()
    failure: Failure | None = None
    created_at: datetime | None = None
    end_by: datetime | None = None
    grace_s: float = 0.0
    requests: Mapping[str, float] = field(default_factory=dict)
    rank: int = 0
    gates: tuple[str, ...] = ()
    node: str = ""
    running: bool = False
    started: bool = False
    beginning: Beginning = field(default_factory=Beginning)
    """How far it is on the way to its worker's start; of a Ready one that is not looked at."""
    scheduled_at: datetime | None = None
    unready_since: datetime | None = None
    ready_since: datetime | None = None
    was_ready: bool = False
    restarted: bool = False

    @property
    def hopeless(self) -> bool:
        """It is not Ready, and waiting alone is not going to help."""
        return self.failure is not None and self.failure.hopeless


def view(pod: Any, deployment: str) -> PodView:
    """The pod of the ModelDeployment named `deployment`."""
    phase = raw.text(pod, "status", "phase")
    finished = phase in ("Failed", "Succeeded")
    terminating = raw.at(pod, "metadata", "deletionTimestamp") is not None
    ready = not finished and not terminating and says_ready(pod)
    node = raw.text(pod, "spec", "nodeName")
    placed = bool(node)
    scheduled = _condition(pod, "PodScheduled")
    stuck = not placed and not finished and scheduled.get("status") == "False"
    stuck = stuck and scheduled.get("reason") == "Unschedulable"
    said = _PREEMPTION.sub("", raw.text(scheduled, "message")) if stuck else ""
    revision, slot, rank = _identity(raw.name(pod), deployment)
    return PodView(
        name=raw.name(pod),
        uid=raw.uid(pod),
        revision=revision,
        slot=slot,
        ready=ready,
        serving=is_behind(pod),
        terminating=terminating,
        finished=finished,
        placed=placed,
        unschedulable=(said or "no node was found") if stuck else "",
        unschedulable_since=raw.instant(scheduled, "lastTransitionTime") if stuck else None,
        lacks=_lacks(said),
        failure=None if ready or terminating else pod_failure(pod),
        created_at=raw.instant(pod, "metadata", "creationTimestamp"),
        end_by=raw.instant(pod, "metadata", "deletionTimestamp"),
        grace_s=float(raw.integer(pod, "metadata", "deletionGracePeriodSeconds")),
        requests=_requests(pod),
        rank=rank,
        gates=tuple(gate for each in raw.items(pod, "spec", "schedulingGates") if (gate := raw.text(each, "name"))),
        node=node or pinned_node(pod),
        running=phase == "Running" and not terminating and not _has_stopped(pod),
        started=_has_started(pod, ready),
        beginning=Beginning() if ready else beginning(pod),
        scheduled_at=raw.instant(scheduled, "lastTransitionTime") if placed else None,
        unready_since=None if ready else raw.instant(_condition(pod, "Ready"), "lastTransitionTime"),
        ready_since=raw.instant(_condition(pod, "Ready"), "lastTransitionTime") if ready else None,
        was_ready=not ready and _was_ready(pod),
        restarted=raw.integer(worker_status(pod), "restartCount") > 0,
    )


def is_behind(pod: Any) -> bool:
    """The label that the Service selects is on."""
    return raw.mapping(pod, "metadata", "labels").get(names.SERVING_LABEL) == "true"


def says_ready(pod: Any) -> bool:
    """Its kubelet says that it is Ready."""
    return _condition(pod, "Ready").get("status") == "True"


def elapsed_s(since: datetime | None, now: datetime) -> float:
    """Seconds from `since` to `now`; infinite where they are not known: no time, or one far in the future."""
    if since is None:
        return inf
    seconds = (now - since).total_seconds()
    return inf if seconds < -_SKEW_S else max(0.0, seconds)


def _identity(name: str, deployment: str) -> tuple[str | None, int | None, int]:
    found = _NAME.search(name)
    if found is None:
        return None, None, 0
    revision, slot, rank = found[1], int(found[2]), int(found[3] or 0)
    return (revision, slot, rank) if names.pod(deployment, revision, slot, rank) == name else (None, None, 0)


def _has_started(pod: Any, ready: bool) -> bool:
    container = worker_status(pod)
    ran = any(raw.mapping(container, "state", kind) for kind in ("running", "terminated"))
    return ready or ran or raw.integer(container, "restartCount") > 0


def _was_ready(pod: Any) -> bool:
    """The kubelet writes that a new pod is not Ready before it starts its worker; what turned later, turned back."""
    turned = raw.instant(_condition(pod, "Ready"), "lastTransitionTime")
    began = raw.instant(worker_status(pod), "state", "running", "startedAt")
    return turned is not None and began is not None and turned > began


def _has_stopped(pod: Any) -> bool:
    """Its worker ended and is not started again yet: the pod's phase is Running all the same."""
    container = worker_status(pod)
    return any(raw.mapping(container, "state", kind) for kind in ("waiting", "terminated"))


def _condition(pod: Any, kind: str) -> dict[str, Any]:
    return dict(next((c for c in raw.items(pod, "status", "conditions") if c.get("type") == kind), {}))


def _requests(pod: Any) -> dict[str, float]:
    worker = next((c for c in raw.items(pod, "spec", "containers") if c.get("name") == names.WORKER_CONTAINER), {})
    amounts = {str(name): _amount(value) for name, value in raw.mapping(worker, "resources", "requests").items()}
    return amounts | {_POD_SLOTS: 1.0}


def _amount(value: Any) -> float:
    """A raw quantity as a number; 0 where it is none."""
    try:
        return float(Quantity(value).exact)
    except ValueError:
        return 0.0  # a spelling that no quantity of ours has


def _lacks(said: str) -> tuple[str, ...]:
    resources = {str(name).rstrip(".") for name in _LACK.findall(said)}
    return tuple(sorted(resources | ({_POD_SLOTS} if _NO_POD_SLOT in said else set())))
