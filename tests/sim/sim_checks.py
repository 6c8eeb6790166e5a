"""What must hold at every step of a fleet in trouble, whatever happens to it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sim_fleet import LATER

from builders import check_status
from modelfleet.api.parse import parse_deployment
from modelfleet.core import raw
from modelfleet.core.capacity import decide_spare
from modelfleet.core.children import observe
from modelfleet.core.effects import Lift, Outcome
from modelfleet.core.groups import Replica
from modelfleet.core.placement.project import node_entry, pinned_node, pod_entry
from modelfleet.core.plan import Plan
from modelfleet.core.pods import view
from modelfleet.core.render.metadata import Owner
from modelfleet.core.revisions import Revision, by_pool, fleet_of, pinned
from modelfleet.core.stage import Stage


@dataclass
class Seen:
    """Our replicas as they are observed, and the revisions that they are of."""

    stage: Stage
    known: dict[str, Revision]
    fleet: tuple[Replica, ...]

    @property
    def serving(self) -> set[str]:
        """Replicas that get requests and answer them."""
        return {replica.name for replica in self.fleet if replica.ready and replica.serving}


def look(stage: Stage) -> Seen:
    """What there is now."""
    deployment = stage.deployment
    owner = Owner(raw.name(deployment), raw.text(deployment, "metadata", "namespace"), raw.uid(deployment))
    known = pinned(observe(stage.world(), owner))
    pods = (view(pod, owner.name) for pod in stage.pods())
    return Seen(stage, known, fleet_of(pods, known.values()))


def faults_of_decision(before: Seen, now: Seen, outcome: Outcome, wanted: int) -> Iterator[str]:
    """What is wrong with a decision that was just carried out in full."""
    check_status(outcome.status)
    yield from faults_of_writes(before, now, outcome, wanted)
    yield from _silent(outcome.status, len(now.serving), wanted)


def faults_of_writes(before: Seen, now: Seen, outcome: Outcome, wanted: int) -> Iterator[str]:
    """What is wrong with writes of a decision, of which the last ones may not have been done."""
    were, are = before.serving, now.serving
    if len(are) < len(were):
        least = min(len(were), wanted - _allowed(now, outcome, wanted))
        if len(are) < least:
            yield f"{len(were)} served, and we left {len(are)} where {least} must be: {sorted(were - are)} went"
    yield from _too_many(before, now, outcome, wanted)
    yield from _over_committed(now.stage, outcome)
    yield from _torn(now)


def _allowed(now: Seen, outcome: Outcome, wanted: int) -> int:
    """How many the rollout's terms let be missing, while there is a revision to replace and a new one has no room
    beside the old ones, or may have none, but has some where these left. A cordoned node is no reason: what leaves it
    frees nothing."""
    spec: Any = parse_deployment(now.stage.deployment)
    goal = raw.text(outcome.status, "plan", "revision")
    beside = spec.spec.rollout.max_surge and not outcome.waits_for_room
    if beside and not any(replica.unschedulable for replica in now.fleet):
        return 0
    if goal not in now.known or not any(replica.revision != goal for replica in now.fleet):
        return 0
    comes = any(each.revision == goal and each.placed and not (each.ready or each.terminating) for each in now.fleet)
    if not comes and not any(_could_stand(now, pool.plan) for pool in now.known[goal].pools):
        return 0
    return decide_spare(spec.spec.rollout, wanted, now.known[goal].plan).missing


def _could_stand(now: Seen, plan: Plan) -> bool:
    """A replica of this plan would have room once all have ended that were asked to or were taken out of the Service:
    counted by accelerators alone."""
    leave = [each for each in now.fleet if each.terminating or (each.ready and not each.serving)]
    out = {pod.name for each in leave for pod in each.pods}
    fitting = 0
    for name, raw_node in now.stage.nodes.items():
        node = node_entry(raw_node)
        taints = [taint for taint in node.taints if taint.effect != "PreferNoSchedule"]
        if node.cordoned or not node.ready or taints or not plan.node_selector.items() <= node.labels.items():
            continue
        there = (each for each in (*now.stage.pods(), *now.stage.others) if raw.name(each) not in out)
        held = (one for one in map(pod_entry, there) if one is not None and one.node == name and not one.leaving)
        free = node.allocatable.get(plan.resource_name, 0) - sum(
            one.requests.get(plan.resource_name, 0) for one in held
        )
        fitting += free >= plan.member_accelerators
    return fitting >= plan.nodes


def faults_at_rest(now: Seen, outcome: Outcome) -> Iterator[str]:
    """What the status says of pools that is not so, while nothing is to be done."""
    pools = {pool["class"]: pool["replicas"] for pool in raw.items(outcome.status, "plan", "pools")}
    of = {name: pool.plan.class_name for name, pool in by_pool(now.known.values()).items()}
    there = dict.fromkeys(pools, 0)
    for replica in now.fleet:
        kind = of.get(replica.pool or "", "")
        there[kind] = there.get(kind, 0) + 1
    if there != pools:
        yield f"the status tells of {pools}, and there are {there}"


def _too_many(before: Seen, now: Seen, outcome: Outcome, wanted: int) -> Iterator[str]:
    """No more replicas are made than are wanted, whatever class they are on, and no more than a deployment may have
    accelerators on a later class."""
    goal, spec = raw.text(outcome.status, "plan", "revision"), now.stage.deployment["spec"]
    were, are = (
        [each for each in seen.fleet if each.revision == goal and not (each.terminating or each.finished)]
        for seen in (before, now)
    )
    replaced = any(node_entry(node).cordoned for node in now.stage.nodes.values())
    surge = max(1, (spec.get("rollout") or {}).get("maxSurge", 1)) if replaced else 0
    most = min(wanted, spec["scaling"]["maxReplicas"]) + surge
    if len(are) > max(len(were), most):
        yield f"{len(are)} replicas stand on all classes where {most} are wanted"
    bound = spec["scaling"].get("maxAccelerators")
    later = {name: pool.plan for name, pool in by_pool(now.known.values()).items() if name not in now.known}
    made = {each.uid for each in are} - {each.uid for each in were}
    held = sum(_accelerators(now, each) for each in are)
    beside = max((_accelerators(now, each) for each in are), default=0) if replaced else 0
    if bound is not None and held > bound + beside and any(each.pool in later and each.uid in made for each in are):
        yield f"a replica is made on a later class, and {held} accelerators are held where {bound} may be"


def _accelerators(now: Seen, replica: Replica) -> int:
    pool = by_pool(now.known.values()).get(replica.pool or "")
    return pool.plan.accelerators if pool is not None else 0


def _over_committed(stage: Stage, outcome: Outcome) -> Iterator[str]:
    """No pod is sent to a node that has no room for it beside what is there and what was sent there."""
    sent = {effect.name for effect in outcome.effects if isinstance(effect, Lift)}
    for name in sorted({pinned_node(pod) for pod in stage.pods() if raw.name(pod) in sent} - {""}):
        if name not in stage.nodes:
            yield f"a pod was sent to {name}, which is not there"
            continue
        entry = node_entry(stage.nodes[name])
        for resource in ("modelfleet.dev/cpu", f"modelfleet.dev/{LATER}"):
            held = (pod_entry(pod) for pod in (*stage.pods(), *stage.others))
            taken = sum(one.requests.get(resource, 0) for one in held if one is not None and one.node == name)
            if taken > entry.allocatable.get(resource, 0):
                yield f"{name} is over-committed: {taken} of {entry.allocatable.get(resource, 0)} {resource}"
        if entry.cordoned or not entry.ready:
            yield f"a pod was sent to {name}, which takes none"


def _torn(now: Seen) -> Iterator[str]:
    """Tensor parallelism stays inside a node, and ranks of a group are on nodes of their own."""
    for name, revision in by_pool(now.known.values()).items():
        if revision.plan.tensor > revision.plan.member_accelerators:
            yield f"revision {name} spreads tensor parallelism over nodes"
    for replica in now.fleet:
        nodes = [pod.node for pod in replica.pods if pod.node]
        if len(set(nodes)) < len(nodes):
            yield f"two ranks of {replica.name} are on one node"


def _silent(status: Any, count: int, wanted: int) -> Iterator[str]:
    """Whatever is not as it should be has a reason."""
    said = {raw.text(each, "type"): each for each in raw.items(status, "conditions")}
    if count < wanted and said["Progressing"]["reason"] == "Settled":
        yield f"{count} of {wanted} serve, and Progressing says that it is settled"
