"""How many replicas a namespace's ResourceQuotas leave room for, so that none is asked for that would be refused. Pure.

A quota with scopes counts some pods only. It bounds where it is certain that it counts ours:

| scope | counts ours |
| --- | --- |
| NotTerminating | yes: no pod of ours has an active deadline |
| NotBestEffort | where the plan asks for cores or memory |
| PriorityClass | where `placement.priorityClassName` is set, by the operator of the scope |
| others | no, or it is not known |

What a quota refuses besides is told when it does (PodsRefused).
"""

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from modelfleet.api import names
from modelfleet.api.values import Quantity
from modelfleet.core import raw
from modelfleet.core.plan import Plan
from modelfleet.core.scaling.weighing import Limit


def quota_limits(quotas: Iterable[Mapping[str, Any]], plan: Plan, standing: int) -> tuple[Limit, ...]:
    """The replicas that there may be, by quota: `standing` are counted as used already."""
    needs = dict(_needs(plan))
    limits = []
    for quota in quotas:
        if not all(_counts(scope, plan) for scope in _scopes(quota)):
            continue
        hard, used = raw.mapping(quota, "status", "hard"), raw.mapping(quota, "status", "used")
        more = [int((_exact(hard[key]) - _exact(used.get(key))) // needs[key]) for key in needs.keys() & hard.keys()]
        if more:
            limits.append(Limit(f"ResourceQuota {raw.name(quota)}", standing + max(0, min(more))))
    return tuple(sorted(limits, key=lambda each: (each.replicas, each.name)))


def _needs(plan: Plan) -> Iterator[tuple[str, Fraction]]:
    """What one replica takes of what quotas count."""
    yield f"requests.{plan.resource_name}", Fraction(plan.accelerators)
    if device_class := names.device_class_of(plan.resource_name):
        yield f"{device_class}.deviceclass.resource.k8s.io/devices", Fraction(plan.accelerators)
    for key in ("pods", "count/pods"):
        yield key, Fraction(plan.nodes)
    for name, each in (("cpu", plan.host_cpu), ("memory", plan.host_memory)):
        if each and _exact(each):
            yield name, _exact(each) * plan.nodes
            yield f"requests.{name}", _exact(each) * plan.nodes


def _exact(value: Any) -> Fraction:
    """A raw quantity, exact: three times 400m are 1200m; 0 where it is none."""
    try:
        return Quantity(value).exact
    except ValueError:
        return Fraction()


def _scopes(quota: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The scopes of a quota, the plain ones as selectors too: a pod is counted if all match."""
    scopes = raw.at(quota, "spec", "scopes")
    yield from ({"scopeName": each, "operator": "Exists"} for each in (scopes if isinstance(scopes, list) else ()))
    yield from raw.items(quota, "spec", "scopeSelector", "matchExpressions")


def _counts(scope: Mapping[str, Any], plan: Plan) -> bool:
    """Whether it is certain that a scope takes in our pods; see the table."""
    name, operator = raw.text(scope, "scopeName"), raw.text(scope, "operator")
    if name == "PriorityClass" and plan.priority_class_name:
        values = raw.at(scope, "values")
        named = plan.priority_class_name in (values if isinstance(values, list) else ())
        return operator == "Exists" or (operator == "In" and named) or (operator == "NotIn" and not named)
    asks = any(each and _exact(each) for each in (plan.host_cpu, plan.host_memory))
    return operator == "Exists" and (name == "NotTerminating" or (name == "NotBestEffort" and bool(asks)))
