"""Settings that were lowered after a worker died for lack of memory that the plan was to blame for. Pure.

The worker proposes a step in its termination message; here it is decided whether it is taken:

| what is observed | what is done |
| --- | --- |
| no pod of the wanted revision proposes anything | what was learned stands |
| the reason is not one of ours (a foreign process above all), or the step is not small and downward | nothing |
| the user wrote the flag in spec.engine.args | nothing; the plan says which value would do |
| STEPS_LIMIT steps were taken for this model, engine and class | nothing; the plan says so |
| the last step of this deployment is younger than PAUSE_S, or dated in the future | nothing yet; the plan says when |
| else | the step is kept in NAME-state, and the inputs of the plan change with it |

A step is never taken back by itself, so nothing flaps. NAME-state is the memory; where its entry is lost or cannot be
read, what the newest revision of the same scope was made with is taken instead.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from pydantic import ValidationError

from modelfleet.api.acceleratorclass import AcceleratorClass
from modelfleet.api.modeldeployment import ModelDeployment
from modelfleet.api.reasons import Reason
from modelfleet.core.failures import Failure, Proposal
from modelfleet.core.inputs import digest, plan_inputs
from modelfleet.core.plan import Corrections, CorrectionStep, Plan, Why
from modelfleet.core.revisions import Revision

STEPS_LIMIT = 3
"""Steps for one scope, in all."""

PAUSE_S = 86_400.0
"""Between two steps of a deployment, whatever its scope."""

_SCOPES_KEPT = 4
_OURS = {Reason.MEMORY_FRACTION_TOO_HIGH, Reason.LONG_PROMPT_SPIKE, Reason.HOST_OUT_OF_MEMORY}
_DEFAULTS = {"gpu-memory-utilization": 0.92}  # the engine's own, where the plan says nothing
_EPSILON = 1e-9


@dataclass(frozen=True)
class _Bounds:
    """How far a flag may fall at once, as an absolute step or a share of what it was, and how far at all."""

    lowest: float
    step: float = 0.0
    share: float = 0.0

    def allows(self, value: float, before: float | None) -> bool:
        if value < self.lowest:
            return False
        if before is None:
            return self.step == 0.0  # a bound that the plan did not set is set for the first time
        floor = before - self.step if self.step else before * (1 - self.share)
        return floor - _EPSILON <= value < before


_FLAGS: Mapping[str, _Bounds] = {
    "gpu-memory-utilization": _Bounds(lowest=0.5, step=0.10),
    "kv-cache-memory-bytes": _Bounds(lowest=16 << 20, share=0.26),  # a quarter, and the rounding to whole MiB
    "max-num-batched-tokens": _Bounds(lowest=256, share=0.5),
    "long-prefill-token-threshold": _Bounds(lowest=256, share=0.5),
}


@dataclass(frozen=True)
class Learned:
    """What holds for one scope: the steps, the oldest first, and the last time of any step of the deployment."""

    scope: str
    steps: tuple[CorrectionStep, ...] = ()
    last_at: datetime | None = None

    @property
    def flags(self) -> dict[str, str]:
        """Engine flags without dashes, with the value that each was lowered to last."""
        return {step.flag: step.value for step in self.steps}


@dataclass(frozen=True)
class Correction:
    """What holds from now on. `taken` is a step of this moment; `note` says why a proposed one is not taken."""

    learned: Learned
    taken: CorrectionStep | None = None
    note: str = ""
    wake_after_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class Death:
    """What a pod of the wanted revision left, and what it ran with."""

    failures: Iterable[Failure] = ()
    plan: Plan | None = None
    users: Mapping[str, str] = field(default_factory=dict)


def scope_of(deployment: ModelDeployment, first: AcceleratorClass) -> str:
    """What steps are learned for: the model, the engine, the layout's pins and the class; not the promise, nor where
    pods are placed."""
    inputs = plan_inputs(deployment, first)
    return digest({key: part for key, part in inputs.items() if key not in ("placement", "imagePullSecrets")})


def learned(entry: Mapping[str, Any], known: Mapping[str, Revision], scope: str) -> Learned:
    """What NAME-state's `entry` holds for `scope`; else what the newest revision of that scope was made with."""
    stored = _stored(entry)
    if stored is None:
        stored = [each.plan.memory for each in _by_number(known) if each.plan.memory is not None]
    mine = next((each.steps for each in reversed(stored) if each.scope == scope), ())
    times = [step.at for each in stored for step in each.steps]
    return Learned(scope, mine, max(times, default=None))


def decide_correction(before: Learned, death: Death, now: datetime) -> Correction:
    """The step, by the table above."""
    found = next((each for each in death.failures if each.proposal is not None), None)
    if found is None or found.proposal is None or death.plan is None or found.reason not in _OURS:
        return Correction(before)
    wish = found.proposal
    if not _is_small(wish, death.plan):
        return Correction(before)
    if wish.flag in death.users:
        said = f"spec.engine.args.{wish.flag} is yours and is not touched: set {wish.value} there"
        return Correction(before, note=said)
    if len(before.steps) >= STEPS_LIMIT:
        said = f"{STEPS_LIMIT} corrections were made for this model and class and no more are; write {_words(wish)}"
        return Correction(before, note=f"{said} in spec.engine.args, or use accelerators with more memory")
    if before.last_at is not None and now < before.last_at + timedelta(seconds=PAUSE_S):
        due = before.last_at + timedelta(seconds=PAUSE_S)
        note = f"{_words(wish)} is set at {due.isoformat()} at the earliest: one correction a day"
        return Correction(before, note=note, wake_after_s=(due - now).total_seconds())
    step = CorrectionStep(
        flag=wish.flag,
        value=wish.value,
        before=_current(death.plan, wish.flag),
        cause=str(found.reason),
        at=now.replace(microsecond=0),
    )
    return Correction(Learned(before.scope, (*before.steps, step), step.at), taken=step)


def corrected(plan: Plan, what: Learned) -> Plan:
    """The plan with the flags that were lowered. The same plan and steps give the same plan."""
    if not what.steps:
        return plan
    kept = [arg for arg in plan.engine_args if _flag(arg)[0] not in what.flags]
    args = (*kept, *(f"--{flag}={value}" for flag, value in sorted(what.flags.items())))
    planned = plan.planned
    if planned is not None:
        why = [Why(check="memory", sentence=sentence(step)) for step in what.steps]
        planned = planned.model_copy(update={"reasons": (*why, *planned.reasons)[:32]})
    memory = Corrections(scope=what.scope, steps=what.steps)
    return plan.model_copy(update={"engine_args": args, "planned": planned, "memory": memory})


def entry_of(entry: Mapping[str, Any], what: Learned) -> dict[str, Any]:
    """What NAME-state keeps: the steps by scope, those of the last few scopes."""
    others = [each for each in _stored(entry) or () if each.scope != what.scope]
    kept = [*others, Corrections(scope=what.scope, steps=what.steps)][-_SCOPES_KEPT:]
    return {"scopes": [each.model_dump(mode="json", by_alias=True) for each in kept]}


def sentence(step: CorrectionStep) -> str:
    """A step, as status and events tell it."""
    return f"{step.flag} is {step.value} instead of {step.before or 'its default'} since a worker died: {step.cause}"


def _stored(entry: Mapping[str, Any]) -> list[Corrections] | None:
    """What somebody may have written by hand; None where it is not what we wrote."""
    scopes = entry.get("scopes")
    if not isinstance(scopes, list):
        return None
    try:
        found = [Corrections.model_validate(each) for each in scopes]
    except ValidationError:
        return None
    whole = all(step.flag in _FLAGS for each in found for step in each.steps)
    return found if whole and all(len(each.steps) <= STEPS_LIMIT for each in found) else None


def _by_number(known: Mapping[str, Revision]) -> list[Revision]:
    return sorted(known.values(), key=lambda each: (each.number, each.name))


def _is_small(wish: Proposal, plan: Plan) -> bool:
    bounds, value = _FLAGS.get(wish.flag), _number(wish.value)
    if bounds is None or value is None:
        return False
    before = _number(_current(plan, wish.flag))
    return bounds.allows(value, before if before is not None else _DEFAULTS.get(wish.flag))


def _current(plan: Plan, flag: str) -> str:
    """What the plan says for a flag; empty where it leaves it to the engine."""
    return next((value for name, value in map(_flag, plan.engine_args) if name == flag), "")


def _flag(arg: str) -> tuple[str, str]:
    name, _, value = arg.removeprefix("--").partition("=")
    return name, value


def _number(text: str) -> float | None:
    """Plain numbers only: what the operator and the worker write. A user's `64M` is the user's and not touched."""
    try:
        return float(text)
    except ValueError:
        return None


def _words(wish: Proposal) -> str:
    return f"{wish.flag} {wish.value}"
