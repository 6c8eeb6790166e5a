"""What the user wants, as far as it can be known: the parsed spec, its class, the plan's inputs, the replicas. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from modelfleet.api.acceleratorclass import AcceleratorClass
from modelfleet.api.modeldeployment import ModelDeployment
from modelfleet.api.parse import Fault, parse_class, parse_deployment
from modelfleet.api.reasons import Reason
from modelfleet.core import raw
from modelfleet.core.inputs import digest, plan_inputs
from modelfleet.core.plan import Plan
from modelfleet.core.planner import infeasible, make_plan
from modelfleet.core.replicas import ReplicasDecision, decide_replicas
from modelfleet.core.snapshot import World
from modelfleet.core.verdict import Verdict, no, unknown, yes

_FAULTS_SAID = 5


@dataclass(frozen=True)
class Wish:
    """A valid, feasible wish. `fresh` is the plan that this operator would pin today."""

    deployment: ModelDeployment
    digest: str
    fresh: Plan
    replicas: ReplicasDecision


@dataclass(frozen=True)
class Intent:
    """The wish, or why there is none: whether the spec and its class are valid, and whether a layout exists."""

    accepted: Verdict
    planned: Verdict
    wish: Wish | None = None


def decide_intent(world: World) -> Intent:
    """Reads the spec and the class it names. Without a wish what runs is left as it is."""
    deployment = parse_deployment(world.deployment)
    if not isinstance(deployment, ModelDeployment):
        return _refused(no(Reason.SPEC_INVALID, _sentence(deployment)))
    name = str(deployment.spec.accelerators.classes[0])
    if name not in world.classes:
        return _refused(no(Reason.CLASS_NOT_FOUND, _not_found(name, world.classes)))
    accelerator = parse_class(world.classes[name])
    if not isinstance(accelerator, AcceleratorClass):
        return _refused(no(Reason.CLASS_INVALID, f"AcceleratorClass {name}: {_sentence(accelerator)}"))
    conflict = _conflict(deployment, accelerator)
    if conflict:
        return _refused(no(Reason.SPEC_INVALID, conflict))
    accepted = yes(Reason.VALID, f"the spec is valid and AcceleratorClass {name} exists")
    impossible = infeasible(deployment, accelerator, _others(world, name))
    if impossible is not None:
        return Intent(accepted, impossible)
    fresh = make_plan(deployment, accelerator, world.settings)
    wish = Wish(
        deployment,
        digest(plan_inputs(deployment, accelerator)),
        fresh,
        decide_replicas(deployment.spec.scaling, raw.mapping(world.deployment, "metadata")),
    )
    return Intent(accepted, _planned(fresh, wish), wish)


def _refused(accepted: Verdict) -> Intent:
    return Intent(accepted, unknown(Reason.NOT_EVALUATED, "no layout is looked for while the spec is not accepted"))


def _planned(plan: Plan, wish: Wish) -> Verdict:
    count = f"{plan.accelerators} {plan.resource_name}"
    return yes(
        Reason.PLAN_PINNED,
        f"a replica takes {count} of class {plan.class_name} in layout {plan.layout}, pinned as revision"
        f" {wish.digest[:8]}",
    )


def _sentence(faults: Iterable[Fault]) -> str:
    said = [str(fault) for fault in faults]
    more = f"; and {len(said) - _FAULTS_SAID} more" if len(said) > _FAULTS_SAID else ""
    return "; ".join(said[:_FAULTS_SAID]) + more


def _not_found(name: str, classes: Iterable[str]) -> str:
    known = sorted(str(known) for known in classes)
    instead = f"the cluster has {', '.join(known)}" if known else "the cluster has none; create one"
    return f"spec.accelerators.classes[0]: there is no AcceleratorClass {name}; {instead}"


def _conflict(deployment: ModelDeployment, accelerator: AcceleratorClass) -> str:
    """Why no node can carry all wanted labels; empty if one can."""
    for key, value in sorted(deployment.spec.placement.node_selector.items()):
        other = accelerator.spec.node_selector.get(key, value)
        if other != value:
            return (
                f"spec.placement.nodeSelector[{key}]: is {value}, and class {accelerator.metadata.name} has it as"
                f" {other}, so no node fits both; leave it out, or choose another class"
            )
    return ""


def _others(world: World, name: str) -> list[AcceleratorClass]:
    parsed: list[Any] = [parse_class(item) for other, item in sorted(world.classes.items()) if other != name]
    return [other for other in parsed if isinstance(other, AcceleratorClass)]
