"""What a class's supplies say of its nodes: whose each is, how much may be bought, how long a drain may take. Pure."""

from collections.abc import Iterable, Mapping

from modelfleet.api.acceleratorclass import AcceleratorClass, Provisioning, Supply
from modelfleet.api.strings import LabelValue, QualifiedName
from modelfleet.core.placement.view import NodeView


def supply_of(kind: AcceleratorClass, labels: Mapping[str, str]) -> Supply | None:
    """The first supply whose labels a node of the class carries; None where it is nobody's."""
    return next((each for each in kind.spec.supplies if _carries(labels, each.node_selector)), None)


def buys(kind: AcceleratorClass) -> bool:
    """Whether an autoscaler brings nodes of the class."""
    return any(each.provisioning is Provisioning.AUTOSCALED for each in kind.spec.supplies)


def notice_s(kind: AcceleratorClass, labels: Mapping[str, str]) -> float | None:
    """How long a drain of a node with these labels may take by its supply, in seconds; None: no limit of its own."""
    supply = supply_of(kind, labels)
    return supply.notice_period.seconds if supply is not None and supply.notice_period is not None else None


def may_buy(kind: AcceleratorClass, nodes: Iterable[NodeView], ordered: int, more: int) -> str | None:
    """Whether `more` accelerators may be asked of a cluster autoscaler: None where they may, else the end of a sentence
    that says why not; empty where no supply of the class is bought at all.

    `ordered` are those that unplaced pods have asked for already. A supply's nodes that are there count against its
    limit; what is ordered counts against all limits together, because nobody knows yet where it will come from.
    """
    bought = [each for each in kind.spec.supplies if each.provisioning is Provisioning.AUTOSCALED]
    if not bought:
        return ""
    if any(each.limit is None for each in bought):
        return None
    own = [node for node in nodes if _carries(node.labels, kind.spec.node_selector)]
    left, said = -ordered, []
    for supply in bought:
        there = sum(
            node.allocatable.get(kind.spec.requested, 0) for node in own if supply_of(kind, node.labels) is supply
        )
        limit = supply.limit or 0
        left += max(0, limit - there)
        said.append(f"supply {supply.name} has {there} of at most {limit}")
    if left >= more:
        return None
    return ", ".join(said) + (f", and {ordered} are asked for already" if ordered else "")


def _carries(labels: Mapping[str, str], selector: Mapping[QualifiedName, LabelValue]) -> bool:
    return all(labels.get(str(key)) == str(value) for key, value in selector.items())
