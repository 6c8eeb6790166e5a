"""What verdicts say of a situation, in parts of sentences, and what they look for. Pure."""

from modelfleet.core.ending import is_lost
from modelfleet.core.groups import Replica
from modelfleet.core.placement.supplies import buys
from modelfleet.core.rollout import Way
from modelfleet.core.situation import Situation


def announced(s: Situation) -> str:
    """Why the first replicas that serve are not called Ready yet."""
    given_s = s.world.settings.propagation_s
    return f"nodes learn where to send requests; they are given {given_s:g} s from when the first replica serves"


def on_later(s: Situation) -> str:
    """How many replicas are on which later class; empty where none is."""
    pools = {pool.name: pool.plan.class_name for pool in s.revision.pools} if s.revision else {}
    said = [f"{count} on class {pools[name]}" for name, count in s.on_later.items() if count]
    first = next(iter(pools.values()), "")
    return f", {' and '.join(said)} because class {first} had no room when they were made" if said else ""


def unschedulable(s: Situation) -> Replica | None:
    """The first replica that stays for which the scheduler found no node."""
    return next((replica for replica in s.staying if replica.unschedulable), None)


def why_failed(replica: Replica) -> str:
    """Which pod or replica failed, and why."""
    return f"{_called(replica)}: {replica.failure.message if replica.failure else ''}"


def why_lost(replica: Replica) -> str:
    """What became of one that served."""
    said = replica.failure.message if replica.failure else "it was deleted and is replaced"
    return f"{_called(replica)}: {said}"


def _called(replica: Replica) -> str:
    """The pod that a failure is about, or the replica where it is about the group."""
    about = replica.failed or (replica.leader if replica.size == 1 else None)
    return f"pod {about.name}" if about else f"replica {replica.name}"


def no_node(replica: Replica) -> str:
    """What the scheduler says of a pod without a node, and what would help."""
    pod, said = replica.stuck, replica.unschedulable.rstrip(". ")
    name = pod.name if pod else replica.name
    return f"pod {name} finds no node: {said}; free or add a node that fits, or mend what these words name"


def is_bought_for(s: Situation, replica: Replica) -> bool:
    """A cluster autoscaler is to bring its node: it is pinned to none, and its class has such a supply."""
    pools = {pool.name: pool.plan.class_name for pool in s.revision.pools} if s.revision is not None else {}
    kind = s.intent.classes.get(pools.get(replica.pool or "", s.revision.plan.class_name if s.revision else ""))
    return kind is not None and buys(kind) and replica.stuck is not None and not replica.stuck.node


def to_come(replica: Replica) -> str:
    """Which pod waits for a node that is to be bought."""
    name = replica.stuck.name if replica.stuck else replica.name
    return f"pod {name} waits for a node that a cluster autoscaler is to bring: {replica.unschedulable.rstrip('. ')}"


def no_way(s: Situation) -> str:
    """Why no old replica makes room, or no further one."""
    needed, most = s.step.needed, s.spare.missing if s.spare else 0
    if s.step.way is Way.BLOCKED and not needed:
        return "; what an old replica holds would not do, so none makes room: free that much by hand"
    if s.step.way is Way.BLOCKED and most < needed:
        many = f", and {needed} would have to" if needed > 1 else ""
        how = f"maxUnavailable is {most}, so no old replica makes room{many}"
        return f"; {how}: allow {needed}, or free that much by hand"
    if s.step.way in (Way.BLOCKED, Way.DELETE_FIRST):
        return "; no more old ones make room, because as many are missing as may be"
    return ""


def stranded(s: Situation) -> str:
    """Why what leaves does not end; empty where some of it does."""
    if not s.stranded or len(s.stranded) < len(s.draining):
        return ""
    name, node = s.stranded[0].name, s.stranded[0].pods[0].node
    if not is_lost(node, s.world.cluster):
        return f"replica {name} has not ended though its grace is over; look at its pods' finalizers and at node {node}"
    return f"replica {name} cannot end, because node {node} is not ready or gone; bring the node back, or delete it"


def cordoned(s: Situation) -> str:
    """Which replica stands on a cordoned node."""
    name, node = min((replica.name, s.cordoned[replica.uid]) for replica in s.replicas if replica.uid in s.cordoned)
    more = len(s.cordoned) - 1
    return f"replica {name} stands on node {node}, which is cordoned{f' (and {more} more do so)' if more else ''}"


def paused(s: Situation) -> str:
    """What stays while a rollout is paused, and how it goes on."""
    names = sorted({replica.revision for replica in s.replicas if replica.revision})
    wanted = s.course.wanted.name if s.course else ""
    return (
        f"the rollout of revision {wanted} is paused: {len(s.replicas)} {replicas(len(s.replicas))} of"
        f" {', '.join(names) or 'older revisions'} stay; set spec.rollout.paused to false to go on"
    )


def given_up(s: Situation) -> str:
    """Why the spec's revision is not the one that serves; empty where it is."""
    failed = s.course.failed if s.course else None
    if failed is None or s.revision is None or s.course is None:
        return ""
    return f"revision {s.course.wanted.name} was given up for revision {s.revision.name}: {failed.message}"


def refused(s: Situation) -> str:
    """What the API server says, and what would help."""
    said = s.world.refused.rstrip(". ")
    return f"the API server refuses what is to be written: {said}; raise the quota, or change the policy or the field"


def replicas(count: int) -> str:
    """The word for so many."""
    return "replica" if count == 1 else "replicas"


def way(s: Situation) -> str:
    """How old replicas are replaced, and what is missing meanwhile."""
    if not s.old:
        return stranded(s) or "the last old ones finish their requests and end"
    stuck = unschedulable(s)
    if stuck is not None and s.step.way is not Way.DELETE_FIRST and is_bought_for(s, stuck):
        return to_come(stuck)
    if s.step.way is Way.SURGE and s.world.cluster is None:
        return "old ones stay while the nodes are not known"
    if s.step.way is Way.SURGE and s.room_comes and s.placing.shortfalls:
        return "a new replica takes the room of an old one that ends"
    if s.step.way is Way.SURGE and s.placing.shortfalls.keys() - s.placing.bought:
        return "a new replica waits for the room of pods that end"
    if s.step.way is Way.SURGE and s.placing.gates:
        return f"old ones stay while a new replica waits behind the scheduling gate {', '.join(s.placing.gates)}"
    if s.step.way is Way.SURGE:
        return "a new replica comes up before an old one leaves"
    if s.step.way is not Way.DELETE_FIRST or s.spare is None:
        return ""
    surge = s.intent.wish.deployment.spec.rollout.max_surge if s.intent.wish else 1
    why = "there is no room for a new replica beside the old ones" if surge else "maxSurge is 0"
    return f"{why}, so at most {s.spare.missing} of {s.wanted} leave first; {s.spare.loss}"
