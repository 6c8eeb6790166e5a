"""Reading what a model is made of: one step, computed from what is observed. Pure.

| what is observed | what is done | what is said |
| --- | --- | --- |
| NAME-state holds the source's report | Jobs that are left over are deleted | the report |
| somebody else has NAME-state | Jobs that are left over are deleted | NameTaken |
| no Job | it is created | Inspecting |
| its pod left a report | the report goes to NAME-state, then the Job is deleted | the report |
| its pod left a reason, or the Job failed | the reason goes to NAME-state; RETRY_S later the Job goes | the reason |
| its pod has no node, or no container | nothing | the scheduler's or kubelet's words |
| no news for SLOW_S | nothing | Inspecting, and where to look |
| NAME-state holds an earlier reason for this source | as above | that reason, until there is other news |
| its report is not understood, and REREAD_S old | as without a report | that it is not understood |
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from modelfleet.api import names
from modelfleet.api.conditions import ConditionStatus, ConditionType
from modelfleet.api.reasons import Reason
from modelfleet.core import raw
from modelfleet.core.children import Children, name_taken
from modelfleet.core.drift import delete
from modelfleet.core.effects import Create, Effect
from modelfleet.core.failures import ended_failure, last_words, pod_failure
from modelfleet.core.kept import entry, state_of
from modelfleet.core.pods import elapsed_s, view
from modelfleet.core.render.job import Errand, inspect_job
from modelfleet.core.snapshot import World
from modelfleet.core.verdict import Verdict, no, unknown

RETRY_S = 60.0
"""A Job that failed is tried anew after this time."""

SLOW_S = 120.0
"""A Job that takes longer has a cause that only its events tell: a quota, a volume that is not mounted."""

REREAD_S = 300.0
"""A report that is not understood is asked for again after this time: somebody may have mended the model's folder."""

_NOT_PLANNED = (ConditionType.PLANNED, ConditionStatus.FALSE)
_JOB = {"apiVersion": "batch/v1", "kind": "Job"}
_NO_REPORT = "the Job that reads the model ended without a report; use a worker image of the operator's version"


@dataclass(frozen=True)
class Inspection:
    """A step. `report` is what the worker read, else `verdict` says why there is none yet. `kept` goes to NAME-state
    before the effects."""

    report: Mapping[str, Any] | None = None
    verdict: Verdict | None = None
    kept: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    effects: tuple[Effect, ...] = ()
    wake_after_s: float | None = None


def known_report(children: Children, source: str) -> Mapping[str, Any] | None:
    """The report on `source` that NAME-state holds."""
    entry = _entry(children, source)
    report = raw.mapping(entry, "report")
    return report or None


def decide_inspection(world: World, children: Children, errand: Errand) -> Inspection:
    """The step towards the report on `errand.source`; see the table above."""
    report = known_report(children, errand.source)
    if report is not None:
        return Inspection(report=report, effects=tuple(let_go(children)))
    return _decide(world, children, errand)


def decide_rereading(world: World, children: Children, errand: Errand) -> Inspection:
    """The step where the report that NAME-state holds is not understood."""
    read_at = raw.instant(_entry(children, errand.source), "at")
    left_s = REREAD_S - elapsed_s(read_at, world.now)
    if left_s > 0:
        return Inspection(effects=tuple(let_go(children)), wake_after_s=left_s)
    return _decide(world, children, errand)


def _decide(world: World, children: Children, errand: Errand) -> Inspection:
    state_name = names.state(children.owner.name)
    if (other := children.foreign.get(("ConfigMap", state_name))) is not None:
        # What is read could not be kept, and would be read again without end.
        taken = name_taken("ConfigMap", other, children.owner)
        return Inspection(verdict=no(Reason.NAME_TAKEN, taken), effects=tuple(let_go(children)))
    name = names.inspect_job(children.owner.name, errand.source, errand.image)
    others = tuple(let_go(children, but=name))
    job = children.jobs.get(name)
    if job is None:
        return _begin(children, errand, name, others)
    if raw.at(job, "metadata", "deletionTimestamp") is not None:
        return Inspection(verdict=_under_way(children, errand), effects=others)
    found = _words(children, job)
    if found is not None:
        read_at = world.now.replace(microsecond=0).isoformat()
        kept = {names.MODEL_KEY: {"source": errand.source, "report": found, "at": read_at}}
        return Inspection(report=found, kept=kept, effects=(*others, delete(job, _JOB)))
    failure = _failure(children, job)
    if failure is None:
        left_s = SLOW_S - elapsed_s(raw.instant(job, "metadata", "creationTimestamp"), world.now)
        verdict = _waiting(children, job) or _under_way(children, errand, slow_job="" if left_s > 0 else name)
        return Inspection(verdict=verdict, effects=others, wake_after_s=left_s if left_s > 0 else None)
    left_s = RETRY_S - elapsed_s(_failed_at(job), world.now) if _failed_at(job) else RETRY_S
    told = {"source": errand.source, "reason": str(failure.reason), "message": failure.message}
    ends = (delete(job, _JOB),) if left_s <= 0 else ()
    wake_after_s = left_s if left_s > 0 else None
    return Inspection(None, failure, {names.MODEL_KEY: told}, (*others, *ends), wake_after_s)


def let_go(children: Children, but: str = "") -> Iterator[Effect]:
    """Deletes our Jobs that read models, except the one named."""
    for name, job in sorted(children.jobs.items()):
        if name != but and raw.at(job, "metadata", "deletionTimestamp") is None:
            yield delete(job, _JOB)


def _begin(children: Children, errand: Errand, name: str, others: tuple[Effect, ...]) -> Inspection:
    other = children.foreign.get(("Job", name))
    if other is not None:
        taken = name_taken("Job", other, children.owner)
        return Inspection(verdict=no(Reason.NAME_TAKEN, taken), effects=others)
    create = Create(inspect_job(children.owner, errand))
    return Inspection(verdict=_under_way(children, errand), effects=(*others, create))


def _under_way(children: Children, errand: Errand, slow_job: str = "") -> Verdict:
    """An earlier reason stands until there is other news, so that a retry every minute does not move the status."""
    entry = _entry(children, errand.source)
    reason = next((reason for reason in Reason if reason == raw.text(entry, "reason")), None)
    if reason is not None:
        return no(reason, raw.text(entry, "message"))
    said = f"what {errand.source.partition(' ')[0]} is made of is being read where the weights are"
    look = f", and takes long: `kubectl describe job {slow_job}` and its pod's events say why" if slow_job else ""
    return unknown(Reason.INSPECTING, said + look)


def _words(children: Children, job: Any) -> Mapping[str, Any] | None:
    for pod in _pods(children, job):
        report = raw.mapping(last_words(pod), "model")
        if report:
            return report
    return None


def _failure(children: Children, job: Any) -> Verdict | None:
    """Why the Job is not going to report."""
    for pod in _pods(children, job):
        failure = ended_failure(pod)
        if failure is not None:
            reason = failure.reason if _NOT_PLANNED in failure.reason.standings else Reason.INSPECT_FAILED
            return no(reason, f"the model's facts cannot be read: {failure.message}")
    ended = {str(condition.get("type")) for condition in raw.items(job, "status", "conditions") if _holds(condition)}
    if "Complete" in ended:
        return no(Reason.INSPECT_FAILED, _NO_REPORT)
    if "Failed" in ended:
        return no(Reason.INSPECT_FAILED, "the Job that reads the model's facts failed: its pods were evicted, or hung")
    return None


def _waiting(children: Children, job: Any) -> Verdict | None:
    """What a pod that has not ended waits for, where it is not only time."""
    for pod in _pods(children, job):
        if raw.text(pod, "status", "phase") in ("Failed", "Succeeded"):
            continue
        seen = view(pod, children.owner.name)
        if seen.unschedulable:
            said = seen.unschedulable.rstrip(". ")
            return no(Reason.UNSCHEDULABLE, f"the pod that reads the model's facts finds no node: {said}")
        failure = pod_failure(pod)
        if failure is not None and _NOT_PLANNED in failure.reason.standings:
            return no(failure.reason, f"the pod that reads the model's facts does not start: {failure.message}")
    return None


def _pods(children: Children, job: Any) -> list[Any]:
    mine = (pod for _, pod in sorted(children.job_pods.items()) if raw.controller(pod).get("uid") == raw.uid(job))
    return list(mine)


def _holds(condition: Mapping[str, Any]) -> bool:
    return condition.get("status") == "True"


def _failed_at(job: Any) -> Any:
    times = (raw.instant(each, "lastTransitionTime") for each in raw.items(job, "status", "conditions") if _holds(each))
    return max((time for time in times if time is not None), default=None)


def _entry(children: Children, source: str) -> Mapping[str, Any]:
    """What NAME-state says of `source`; empty where it says nothing, or nothing readable."""
    found = entry(state_of(children), names.MODEL_KEY)
    return found if found.get("source") == source else {}
