"""How many replicas a namespace's ResourceQuotas leave room for, so that none is asked for that would be refused. Pure.

A quota with scopes counts some pods only; which, is not guessed: what it refuses is told when it does (PodsRefused).
"""

from collections.abc import Iterable, Iterator, Mapping
from math import floor
from typing import Any

from modelfleet.api import names
from modelfleet.core import raw
from modelfleet.core.plan import Plan
from modelfleet.core.pods import amount
from modelfleet.core.scaling.weighing import Limit


def quota_limits(quotas: Iterable[Mapping[str, Any]], plan: Plan, standing: int) -> tuple[Limit, ...]:
    """The replicas that there may be, by quota: `standing` are counted as used already."""
    needs = dict(_needs(plan))
    limits = []
    for quota in quotas:
        if raw.at(quota, "spec", "scopes") or raw.at(quota, "spec", "scopeSelector"):
            continue
        hard, used = raw.mapping(quota, "status", "hard"), raw.mapping(quota, "status", "used")
        more = [floor((amount(hard[key]) - amount(used.get(key))) / needs[key]) for key in needs.keys() & hard.keys()]
        if more:
            limits.append(Limit(f"ResourceQuota {raw.name(quota)}", standing + max(0, min(more))))
    return tuple(sorted(limits, key=lambda each: (each.replicas, each.name)))


def _needs(plan: Plan) -> Iterator[tuple[str, float]]:
    """What one replica takes of what quotas count."""
    yield f"requests.{plan.resource_name}", float(plan.accelerators)
    if plan.resource_name.startswith(names.device_class_resource("")):
        device_class = plan.resource_name.removeprefix(names.device_class_resource(""))
        yield f"{device_class}.deviceclass.resource.k8s.io/devices", float(plan.accelerators)
    for key in ("pods", "count/pods"):
        yield key, float(plan.nodes)
    for name, each in (("cpu", plan.host_cpu), ("memory", plan.host_memory)):
        if each and amount(each):
            yield name, amount(each) * plan.nodes
            yield f"requests.{name}", amount(each) * plan.nodes
