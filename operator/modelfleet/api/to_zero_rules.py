"""What must hold for scaling to zero, as rows. Pure; what needs the AcceleratorClass is in core/scaling/zero.py."""

from typing import Any

from modelfleet.api.modeldeployment import ModelDeploymentSpec, Scaling
from modelfleet.api.rule import Rule
from modelfleet.api.to_zero import FirstCaller

_DURATION = "^([0-9]{1,5}(h|m|s|ms)){1,4}$"


def _first_callers_can_wait(spec: ModelDeploymentSpec) -> bool:
    terms = spec.scaling.to_zero
    if terms is None:
        return True
    counting = [each for each in spec.objectives if each.first_caller is FirstCaller.COUNTS]
    return all(each.ttft.milliseconds >= terms.first_caller_waits.milliseconds for each in counting)


TO_ZERO: tuple[Rule[Any], ...] = (
    Rule(
        "zero-replicas-need-terms",
        Scaling,
        "self.minReplicas >= 1 || has(self.toZero)",
        lambda it: it.min_replicas >= 1 or it.to_zero is not None,
        "minReplicas 0 needs toZero, which says when no replica runs and how long the first caller waits: write toZero,"
        " or minReplicas of at least 1",
        "minReplicas",
    ),
    Rule(
        "terms-need-zero-replicas",
        Scaling,
        "!has(self.toZero) || self.minReplicas == 0",
        lambda it: it.to_zero is None or it.min_replicas == 0,
        "toZero needs minReplicas 0: write 0, or leave toZero out",
        "toZero",
    ),
    Rule(
        "one-replica-at-most-at-least",
        Scaling,
        "self.maxReplicas >= 1 || self.minReplicas > 0",
        lambda it: it.max_replicas >= 1 or it.min_replicas > 0,
        "maxReplicas must be at least 1: a model that may have no replica serves nobody",
        "maxReplicas",
    ),
    Rule(
        "first-callers-can-wait",
        ModelDeploymentSpec,
        "!has(self.scaling.toZero) || !has(self.scaling.toZero.firstCallerWaits)"
        f" || !self.scaling.toZero.firstCallerWaits.matches('{_DURATION}')"
        " || self.objectives.all(o, (has(o.firstCaller) && o.firstCaller == 'Excused') || !has(o.ttft)"
        f" || !o.ttft.matches('{_DURATION}')"
        " || duration(o.ttft) >= duration(self.scaling.toZero.firstCallerWaits))",
        _first_callers_can_wait,
        "an objective whose first caller counts has a ttft below toZero.firstCallerWaits, so the request that wakes the"
        " model would break the promise: write firstCaller Excused there, a longer ttft, or leave toZero out",
        "scaling.toZero",
    ),
)
