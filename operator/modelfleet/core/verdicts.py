"""The verdict of each condition about a situation. Pure; each function's docstring is its truth table, read from above.

No verdict reads an earlier condition, and no sentence holds a time or a count that moves by itself.
"""

from modelfleet.api.conditions import ConditionStatus, ConditionType
from modelfleet.api.reasons import Reason
from modelfleet.core import verdict_words as words
from modelfleet.core.groups import Replica
from modelfleet.core.rollout import Way
from modelfleet.core.situation import Situation
from modelfleet.core.verdict import Verdict, no, unknown, yes
from modelfleet.core.zero_verdicts import zero_available, zero_progressing

_LET_GO = "free or add a node that fits, or set spec.rollout.maxUnavailable so that it may end first"
_TRY_AGAIN = "change the spec, or to try it again as it is set spec.rollout.paused to true and then to false"
_STUCK = (ConditionType.PROGRESSING, ConditionStatus.FALSE)


def verdicts(s: Situation, objectives_met: Verdict) -> dict[ConditionType, Verdict]:
    """A verdict for every condition; that about the promise is made from samples (promised.py)."""
    accepted, available = _accepted(s), _available(s)
    return {
        ConditionType.ACCEPTED: accepted,
        ConditionType.PLANNED: s.intent.planned,
        ConditionType.PLACED: _placed(s),
        ConditionType.AVAILABLE: available,
        ConditionType.PROGRESSING: _progressing(s),
        ConditionType.READY: _ready(s, accepted, s.intent.planned, available),
        ConditionType.OBJECTIVES_MET: objectives_met,
    }


def _accepted(s: Situation) -> Verdict:
    """
    | spec or class not valid | False, its reason |
    | somebody else holds the name of our Service, plan or revision | False, NameTaken |
    | else | True, Valid |
    """
    if s.intent.accepted.holds and s.taken:
        return no(Reason.NAME_TAKEN, "; ".join(s.taken))
    return s.intent.accepted


def _placed(s: Situation) -> Verdict:
    """
    | no wish | Unknown, NotEvaluated |
    | a staying pod waits for a node that is to be bought | False, Placing |
    | a staying pod has no node, says the scheduler | False, Unschedulable |
    | pods are missing and the API server refuses them | False, PodsRefused |
    | a replica cannot be placed now (`_unplaced`) | False, that reason |
    | as many staying pods as wanted have a node (of any revision) | True, AllPlaced |
    | else | False, Placing |
    """
    if s.intent.wish is None:
        return unknown(Reason.NOT_EVALUATED, "no replica is wanted while the spec is not accepted and planned")
    placed = min(s.wanted, sum(replica.placed and not replica.finished for replica in s.staying))
    count = f"{placed} of {s.wanted} replicas have a node{words.on_later(s)}"
    stuck = words.unschedulable(s)
    if stuck is not None and words.is_bought_for(s, stuck):
        return no(Reason.PLACING, f"{count}; {words.to_come(stuck)}")
    if stuck is not None:
        return no(Reason.UNSCHEDULABLE, f"{count}; {words.no_node(stuck)}")
    if s.world.refused and s.step.create:
        return no(Reason.PODS_REFUSED, f"{count}; {words.refused(s)}")
    unplaced = _unplaced(s)
    if unplaced is not None:
        return no(unplaced[0], f"{count}; {unplaced[1]}")
    if placed >= s.wanted:
        return yes(Reason.ALL_PLACED, count)
    return no(Reason.PLACING, count)


def _available(s: Situation) -> Verdict:
    """
    | no replica serves by our own choice | zero_verdicts.py |
    | at least minReplicas serve (with toZero: one), of any revision | True, MinimumAvailable |
    | no wish, and no pods | Unknown, NotEvaluated |
    | a pod failed, has no node, is refused, cannot be placed, was lost | False, that reason (in this order) |
    | else | False, Starting |
    """
    at_zero = zero_available(s)
    if at_zero is not None:
        return at_zero
    serving = len(s.serving)
    count = f"{serving} {words.replicas(serving)} serve{'s' if serving == 1 else ''} and minReplicas is {s.minimum}"
    if serving >= s.minimum:
        return yes(Reason.MINIMUM_AVAILABLE, count)
    if s.intent.wish is None and not s.fleet:
        return unknown(Reason.NOT_EVALUATED, "no replica is started while the spec is not accepted and planned")
    reason, why = _cause(s)
    return no(reason, f"{count}: {why}")


def _progressing(s: Situation) -> Verdict:
    """
    | no wish | Unknown, NotEvaluated |
    | the model goes to zero or is there | zero_verdicts.py |
    | somebody else holds the plan's or the revision's name | False, NameTaken |
    | replicas of other revisions stand, and the rollout is paused | Unknown, RolloutPaused |
    | a pod of the wanted revision failed for a reason that waiting does not mend | False, that reason |
    | the API server refuses what is to be written | False, PodsRefused |
    | a pod has no node, and no old one may make room for it | False, Unschedulable |
    | a replica has no room, and no old one makes any | False, NoRoom |
    | a replica stands on a cordoned node, and no other has room | False, CordonedNode |
    | no further new replica serves since the deadline, and it is not given up | False, ProgressDeadlineExceeded |
    | pods of other revisions stand | True, RollingOut |
    | a replica stands on a cordoned node | True, CordonedNode |
    | a replica is worse than the others for certain | True, SlowReplica |
    | a replica cannot be placed now for another reason (`_unplaced`) | True, that reason |
    | a pod of the wanted revision ended or is missed | True, ReplicaLost |
    | the number of pods is not the wanted one | True, Placing (none yet) or Scaling |
    | a pod failed and is started again | True, that reason |
    | a pod has no node yet | True, Placing |
    | a pod is not Ready yet | True, Starting |
    | pods drain | True, Draining |
    | nodes may not know yet of any replica that serves | True, Announced |
    | the wanted revision was given up and an older one serves | False, RolledBack |
    | else | False, Settled |
    """
    if s.intent.wish is None or s.revision is None:
        return unknown(Reason.NOT_EVALUATED, "nothing is moved while the spec is not accepted and planned")
    return (
        zero_progressing(s)
        or _stopped(s, s.revision.name)
        or _moving(s, s.revision.name)
        or _settling(s, s.revision.name)
    )


def _stopped(s: Situation, revision: str) -> Verdict | None:
    if s.plan_blocked:
        return no(Reason.NAME_TAKEN, "; ".join(s.taken))
    if s.course is not None and s.course.paused:
        return unknown(Reason.ROLLOUT_PAUSED, words.paused(s))
    rest = f"; {len(s.old)} of older revisions stay meanwhile" if s.old else ""
    failed = _failed(s.current)
    if failed is not None and failed.failure is not None and _STUCK in failed.failure.reason.standings:
        return no(failed.failure.reason, f"revision {revision} does not come up: {words.why_failed(failed)}{rest}")
    if s.world.refused and s.moves:
        return no(Reason.PODS_REFUSED, f"{words.refused(s)}{rest}")
    stuck = words.unschedulable(s)
    waits = s.room_comes or s.step.way is Way.SURGE or (s.step.way is Way.DELETE_FIRST and _comes_up(s))
    if stuck is not None and not (waits or words.is_bought_for(s, stuck)):
        return no(Reason.UNSCHEDULABLE, f"{words.no_node(stuck)}{rest}{words.no_way(s) if stuck.lacks else ''}")
    unplaced = _unplaced(s)
    if unplaced is not None and unplaced[0] is Reason.NO_ROOM and not waits:
        if s.cordoned and not s.old:
            return no(Reason.CORDONED_NODE, f"{words.cordoned(s)} and no other has room: {unplaced[1]}; {_LET_GO}")
        return no(Reason.NO_ROOM, f"{unplaced[1]}{rest}{words.no_way(s) if s.old else ''}")
    if s.course is not None and s.course.halted is not None and _STUCK in s.course.halted[0].standings:
        reason, why = s.course.halted  # of NAME-state, where somebody may have written another
        return no(reason, f"revision {revision} does not get on: {why}{rest}")
    return None


def _comes_up(s: Situation) -> bool:
    """A replica is on its way to serve."""
    return any(not (replica.ready or replica.failure or replica.unschedulable) for replica in s.current)


def _moving(s: Situation, revision: str) -> Verdict | None:
    if s.old or any(replica.revision != revision for replica in s.draining):
        new = sum(replica.ready for replica in s.current)
        why = words.given_up(s)
        how = "; ".join(part for part in (words.way(s), words.stranded(s) if s.old else "", why) if part)
        return yes(Reason.ROLLING_OUT, f"{new} of {s.wanted} replicas serve revision {revision}; {how}")
    unplaced = _unplaced(s)
    if unplaced is not None and unplaced[0] is not Reason.NO_ROOM:
        return yes(*unplaced)
    if s.cordoned:
        return yes(Reason.CORDONED_NODE, f"{words.cordoned(s)}; another comes up before it leaves")
    if s.slow:
        return yes(Reason.SLOW_REPLICA, f"{s.slow}; it is replaced")
    if s.lost is not None:
        return yes(Reason.REPLICA_LOST, words.why_lost(s.lost))
    if unplaced is not None:
        return yes(Reason.PLACING, f"{unplaced[1]}; what ends now may leave enough")
    have = len(s.current) + len([replica for replica in s.replicas if replica.uid in s.step.victims])
    if not have:
        return yes(Reason.PLACING, f"{s.wanted} {words.replicas(s.wanted)} to create")
    if have != s.wanted:
        stays = f"; {s.world.unread}, so none leaves" if 0 < s.wanted < have and s.world.cluster is None else ""
        return yes(Reason.SCALING, f"from {have} to {s.wanted} {words.replicas(s.wanted)}{stays}")
    return None


def _settling(s: Situation, revision: str) -> Verdict:
    failed = _failed(s.current)
    if failed is not None and failed.failure is not None:
        return yes(failed.failure.reason, f"{words.why_failed(failed)}; it is started again")
    ready = sum(replica.ready for replica in s.current)
    if not all(replica.placed for replica in s.current):
        stuck = words.unschedulable(s)
        return yes(Reason.PLACING, words.to_come(stuck) if stuck is not None else "the scheduler is choosing nodes")
    if ready < max(s.wanted, len(s.current)) or s.step.on:
        return yes(Reason.STARTING, f"{ready} of {s.wanted} replicas of revision {revision} serve, the others start")
    if s.draining:
        one = len(s.draining) == 1
        how = "replica finishes its requests and ends" if one else "replicas finish their requests and end"
        return yes(Reason.DRAINING, words.stranded(s) or f"{len(s.draining)} {how}")
    if s.unheard_s:
        return yes(Reason.ANNOUNCED, words.announced(s))
    given_up = words.given_up(s)
    if given_up:
        return no(Reason.ROLLED_BACK, f"{given_up}; {_TRY_AGAIN}")
    return no(Reason.SETTLED, f"{ready} of {s.wanted} replicas of revision {revision} serve")


def _ready(s: Situation, *parts: Verdict) -> Verdict:
    """
    | one of Accepted, Planned, Available is False | False, the first such one's reason |
    | one is Unknown | Unknown, the first such one's reason |
    | no replica serves by our own choice | True, Available's reason |
    | nodes may not know yet of any replica that serves | False, Announced |
    | else | True, Serving |
    """
    for status in (ConditionStatus.FALSE, ConditionStatus.UNKNOWN):
        for part in parts:
            if part.status is status:
                return Verdict(status, part.reason, part.message)
    if parts[-1].reason in (Reason.AT_ZERO, Reason.WAKING):
        return parts[-1]
    if s.unheard_s:
        return no(Reason.ANNOUNCED, words.announced(s))
    return yes(Reason.SERVING, f"{len(s.serving)} of {s.wanted} replicas serve")


def _cause(s: Situation) -> tuple[Reason, str]:
    """Why too few replicas serve. Pods of the wanted revision speak first; without a wish, all."""
    failed = _failed(s.current if s.revision else s.staying)
    if failed is not None and failed.failure is not None:
        return failed.failure.reason, words.why_failed(failed)
    stuck = words.unschedulable(s)
    if stuck is not None:
        return Reason.UNSCHEDULABLE, words.no_node(stuck)
    if s.world.refused and s.step.create:
        return Reason.PODS_REFUSED, words.refused(s)
    unplaced = _unplaced(s)
    if unplaced is not None:
        return unplaced
    if s.lost is not None:
        return Reason.REPLICA_LOST, words.why_lost(s.lost)
    return Reason.STARTING, "the others start" if s.serving else "workers start"


def _failed(replicas: tuple[Replica, ...]) -> Replica | None:
    """The failed one to speak of: one that waiting does not mend before others, then the lowest slot."""
    failed = [replica for replica in replicas if replica.failure is not None]
    lasting = (each for each in failed if each.failure is not None and _STUCK in each.failure.reason.standings)
    return next(lasting, None) or next(iter(failed), None)


def _unplaced(s: Situation) -> tuple[Reason, str] | None:
    """
    | replicas are to be placed and the nodes are not known | NodesNotRead |
    | no nodes have room for a whole one, and none are bought | NoRoom |
    | a replica ended as a whole and its back-off is not over | BackingOff |
    | pods stand behind a gate of somebody else | WaitsForGate |
    """
    placing = s.placing
    if placing.blind:
        return Reason.NODES_NOT_READ, f"{s.world.unread}, so nothing is placed"
    short = [name for name in sorted(placing.shortfalls) if name not in placing.bought]
    if short:
        more = f" (and {len(short) - 1} more like it)" if len(short) > 1 else ""
        return Reason.NO_ROOM, f"replica {short[0]}{more} {placing.shortfalls[short[0]].sentence}"
    for slot, past in sorted(s.life.backing_off.items()):
        times = "once" if past.count == 1 else f"{past.count} times"
        return Reason.BACKING_OFF, f"replica {slot} ended {times} and is made anew after a back-off: {past.why}"
    if placing.gates:
        return Reason.WAITS_FOR_GATE, f"pods wait behind the scheduling gate {', '.join(placing.gates)}"
    return None
