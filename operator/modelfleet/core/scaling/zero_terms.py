"""Whether a model may scale to zero at all, as far as other objects decide it. Pure.

What the spec alone decides (rule 8's first caller) is in api/to_zero_rules.py. Here is the class's half: capacity that
is given back must be there again when the next caller comes.
"""

from collections.abc import Iterable

from modelfleet.api.acceleratorclass import AcceleratorClass
from modelfleet.api.modeldeployment import ModelDeployment


def may_not_return(deployment: ModelDeployment, classes: Iterable[AcceleratorClass]) -> str:
    """Why the capacity of one of the listed classes may not come back, as a sentence; empty where it may be given back.

    Each class counts, because the plan may be on any of them. A class without supplies says nothing against it.
    """
    if deployment.spec.scaling.to_zero is None:
        return ""
    for each in classes:
        supplies = each.spec.supplies
        if supplies and not any(supply.can_be_reacquired for supply in supplies):
            named = ", ".join(str(supply.name) for supply in supplies)
            return (
                f"spec.scaling.toZero: class {each.metadata.name} has only supplies that cannot be reacquired"
                f" ({named}), so a model that gives them back may not get them again; leave toZero out and write"
                " minReplicas of at least 1, or name another class"
            )
    return ""
