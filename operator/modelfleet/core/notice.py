"""How long a pod may take to end where its node is about to be taken away. Pure.

A supply with a noticePeriod cordons a node that long before it takes it. A pod that is deleted there gets no more time
than that, because the node would not give it more.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import ceil

from modelfleet.api.acceleratorclass import AcceleratorClass
from modelfleet.core.effects import Delete, Effect
from modelfleet.core.groups import Replica
from modelfleet.core.placement.supplies import notice_s
from modelfleet.core.placement.view import ClusterView
from modelfleet.core.plan import Plan
from modelfleet.core.render.pod import grace_period_s


def within_notice(
    effects: Iterable[Effect],
    fleet: Iterable[Replica],
    plans: Mapping[str, Plan],
    classes: Mapping[str, AcceleratorClass],
    cluster: ClusterView | None,
) -> tuple[Effect, ...]:
    """The effects, deletions of pods on cordoned nodes bounded by the notice of the node's supply."""
    bounds = dict(_bounds(fleet, plans, classes, cluster)) if cluster is not None else {}
    if not bounds:
        return tuple(effects)
    return tuple(
        replace(effect, grace_s=bounds[effect.uid]) if isinstance(effect, Delete) and effect.uid in bounds else effect
        for effect in effects
    )


def _bounds(
    fleet: Iterable[Replica],
    plans: Mapping[str, Plan],
    classes: Mapping[str, AcceleratorClass],
    cluster: ClusterView,
) -> Iterator[tuple[str, int]]:
    """The longest grace of each pod that has less than its own, by uid."""
    cordoned = {node.name: node for node in cluster.nodes if node.cordoned}
    for replica in fleet if cordoned else ():
        plan = plans.get(replica.pool or "")
        kind = classes.get(plan.class_name) if plan is not None else None
        if plan is None or kind is None:
            continue
        for pod in replica.pods:
            node = cordoned.get(pod.node)
            notice = notice_s(kind, node.labels) if node is not None else None
            if notice is not None and ceil(notice) < grace_period_s(plan):
                yield pod.uid, ceil(notice)
