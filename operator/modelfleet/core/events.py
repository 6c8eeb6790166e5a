"""Events about decisions that changed. Pure: the earlier decision is what the status says, and nothing else is decided
from it."""

from collections.abc import Iterator, Mapping

from modelfleet.api import names
from modelfleet.api.conditions import ConditionStatus, ConditionType, read
from modelfleet.api.modeldeployment import ScalingMode
from modelfleet.api.reasons import EventReason, Reason, ScalingReason
from modelfleet.core import raw
from modelfleet.core.children import name_taken
from modelfleet.core.correction import sentence
from modelfleet.core.effects import Event
from modelfleet.core.scaling.memory import Fault
from modelfleet.core.situation import Situation
from modelfleet.core.status import last_decision, stored_decision
from modelfleet.core.verdict import Verdict

_TOLD = (
    ConditionType.ACCEPTED,
    ConditionType.PLANNED,
    ConditionType.PLACED,
    ConditionType.AVAILABLE,
    ConditionType.PROGRESSING,
)
_SILENT = {Reason.PLACING, Reason.ANNOUNCED, Reason.NOT_EVALUATED}
_SILENT_NUMBERS = {str(ScalingReason.NO_DATA), str(ScalingReason.SAFE_STATE)}
_FOUND = {
    Fault.SLOW_REPLICA: Reason.SLOW_REPLICA,
    Fault.LATE_WITHOUT_LOAD: EventReason.LATE_WITHOUT_LOAD,
    Fault.YIELDED: EventReason.YIELDED,
    Fault.GRANTED: EventReason.GRANTED,
}
_CALM = {Reason.STARTING, Reason.SETTLED, Reason.AT_ZERO}


def events(s: Situation, said: Mapping[ConditionType, Verdict]) -> tuple[Event, ...]:
    """One event for each changed decision; a reason that several conditions share is told once."""
    told: dict[str, Event] = {}
    decided = (*_of_corrections(s), *_of_scaling(s), *_of_classes(s), *_of_pod_names(s))
    for event in (*_of_findings(s), *_of_conditions(s, said), *decided):
        told.setdefault(event.reason, event)
    return tuple(told.values())


def _of_conditions(s: Situation, said: Mapping[ConditionType, Verdict]) -> Iterator[Event]:
    before = {condition.type: condition for condition in read(raw.mapping(s.world.deployment, "status"))}
    for kind in _TOLD:
        verdict, old = said[kind], before.get(kind)
        same = old is not None and (old.status, old.reason) == (verdict.status, verdict.reason)
        if kind is ConditionType.PLANNED and verdict.reason is Reason.PLAN_PINNED:
            same = same and not _another_revision(s)
        if same or verdict.reason in _SILENT or verdict.status is ConditionStatus.UNKNOWN:
            continue
        if (kind, verdict.reason) == (ConditionType.AVAILABLE, Reason.STARTING):
            continue  # Progressing tells it when the pods have their nodes
        if (kind, verdict.reason) == (ConditionType.PROGRESSING, Reason.AT_ZERO):
            continue  # Available told it when the last replica was taken out of the Service
        bad = verdict.status is ConditionStatus.FALSE and verdict.reason not in _CALM
        yield Event("Warning" if bad else "Normal", str(verdict.reason), verdict.message)


def _another_revision(s: Situation) -> bool:
    """The plan is another than the one that the status tells of."""
    told = raw.text(s.world.deployment, "status", "plan", "revision")
    return s.revision is not None and told != s.revision.name


def _of_corrections(s: Situation) -> Iterator[Event]:
    """A revision that was made because a worker died for lack of memory."""
    memory = s.intent.wish.plan.memory if s.intent.wish else None
    if memory is not None and memory.steps and _another_revision(s):
        yield Event("Warning", str(EventReason.MEMORY_CORRECTED), sentence(memory.steps[-1]))


def _of_findings(s: Situation) -> Iterator[Event]:
    """What is late for another reason than the load, once it is found."""
    for finding in s.scaling.news if s.scaling else ():
        kind = "Normal" if finding.fault is Fault.GRANTED else "Warning"
        yield Event(kind, str(_FOUND[finding.fault]), finding.sentence)


def _of_scaling(s: Situation) -> Iterator[Event]:
    before, now = stored_decision(s), last_decision(s)
    if s.intent.wish is None or now is None or now == before:
        return
    if before is not None and before.to != now.to:
        yield Event("Normal", str(EventReason.SCALED), f"from {before.to} to {now.to} replicas: {now.detail}")
    if s.scaling and s.scaling.case.scaling.mode is ScalingMode.ADVISORY and before is not None:
        yield Event("Normal", str(EventReason.ADVISED), now.detail)
    silent = now.reason in _SILENT_NUMBERS
    if silent and (before is None or before.reason not in _SILENT_NUMBERS):
        yield Event("Warning", str(EventReason.NO_DATA), now.detail)
    if not silent and before is not None and before.reason in _SILENT_NUMBERS:
        yield Event("Normal", str(EventReason.DATA_BACK), now.detail)
    if s.intent.wish.replicas.ignored:
        yield Event("Warning", str(EventReason.REPLICAS_IGNORED), s.intent.wish.replicas.ignored)


def _of_classes(s: Situation) -> Iterator[Event]:
    """Replicas that are made on a later class now."""
    spilled = s.placing.spilled
    if spilled:
        first, more = spilled[0], len(spilled) - 1
        and_more = f" ({more} more are made on later classes too)" if more else ""
        note = f"replica {first.replica} is made on class {first.class_name}: {first.why}{and_more}"
        yield Event("Normal", str(EventReason.NEXT_CLASS_USED), note)


def _of_pod_names(s: Situation) -> Iterator[Event]:
    """A pod of somebody else under a name that we would have used: the next slot is used instead."""
    if s.revision is None or not s.step.create:
        return
    owner = s.children.owner
    for slot in range(max(s.step.create)):
        other = s.children.foreign.get(("Pod", names.pod(owner.name, s.revision.name, slot)))
        if other is not None:
            yield Event("Warning", str(Reason.NAME_TAKEN), name_taken("Pod", other, owner))
            return
