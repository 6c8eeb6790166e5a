"""What is said of a wish: the plan that is pinned for it, or what in the spec cannot be accepted. Pure."""

from collections.abc import Iterable

from modelfleet.api.acceleratorclass import AcceleratorClass
from modelfleet.api.modeldeployment import ModelDeployment
from modelfleet.api.parse import Fault
from modelfleet.api.reasons import Reason
from modelfleet.core.inputs import REVISION_DIGITS
from modelfleet.core.plan import Plan
from modelfleet.core.planner import states_nothing
from modelfleet.core.verdict import Verdict, yes
from modelfleet.core.weights import kept_sentence

_FAULTS_SAID = 5


def pinned_words(plan: Plan, digest: str, unpredicted: AcceleratorClass | None = None) -> Verdict:
    """The verdict about a plan that is pinned under `digest`; `unpredicted` is its class where nothing is predicted."""
    count = f"{plan.accelerators} {plan.resource_name}"
    if unpredicted is not None:
        why = f"nothing was predicted, because {states_nothing(unpredicted)}"
    else:
        why = plan.planned.summary if plan.planned else ""
    parts = (
        f"a replica takes {count} of class {plan.class_name} in layout {plan.layout}, pinned as revision"
        f" {digest[:REVISION_DIGITS]}",
        _later(plan),
        *(f"class {each.class_name} is not used: {each.sentence.rstrip('.')}" for each in plan.unused),
        why,
        kept_sentence(plan.weights),
    )
    return yes(Reason.PLAN_PINNED, "; ".join(filter(None, parts)))


def _later(plan: Plan) -> str:
    """Which classes are used where that of the plan has no room, and in what layout; empty where there is none."""
    said = ", then ".join(
        f"{each.accelerators} {each.resource_name} of class {each.class_name} in layout {each.layout}"
        for each in plan.others
    )
    return f"where that class has no room, {said}" if said else ""


def faults_words(faults: Iterable[Fault]) -> str:
    """The faults of an object, the first ones in full."""
    said = [str(fault) for fault in faults]
    more = f"; and {len(said) - _FAULTS_SAID} more" if len(said) > _FAULTS_SAID else ""
    return "; ".join(said[:_FAULTS_SAID]) + more


def not_found_words(index: int, name: str, classes: Iterable[str]) -> str:
    """A listed class is not there, and which are."""
    known = sorted(str(known) for known in classes)
    instead = f"the cluster has {', '.join(known)}" if known else "the cluster has none; create one"
    return f"spec.accelerators.classes[{index}]: there is no AcceleratorClass {name}; {instead}"


def conflict_words(deployment: ModelDeployment, accelerator: AcceleratorClass) -> str:
    """Why no node can carry all wanted labels; empty if one can."""
    for key, value in sorted(deployment.spec.placement.node_selector.items()):
        other = accelerator.spec.node_selector.get(key, value)
        if other != value:
            return (
                f"spec.placement.nodeSelector[{key}]: is {value}, and class {accelerator.metadata.name} has it as"
                f" {other}, so no node fits both; leave it out, or choose another class"
            )
    return ""
