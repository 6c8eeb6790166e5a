"""What the next start finds on which node: weights, and code that an engine compiled. Pure.

| what is observed | what is known then |
| --- | --- |
| a pod's fetch into its node's cache ended well | its weights are on that node |
| its worker says that it took or keeps compiled code | that is there too; where it says that it found none, it is not |
| a later fetch of the namespace on that node, of whatever model, lists what is kept | the rest was evicted |
| the node is gone, or no pod was there for the cache's `maxAge` | nothing is known of it any more |

It is kept in NAME-state (warmth.json), because at zero no pod tells. What is known can be wrong: a folder that somebody
emptied, an eviction that no pod of ours tells. So placement prefers such nodes and relies on nothing; losing the entry
costs a start that is not as short as it could be.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from modelfleet.api import names
from modelfleet.core import raw
from modelfleet.core.children import Children
from modelfleet.core.cold_start import reading_of
from modelfleet.core.failures import is_fetched
from modelfleet.core.groups import Replica
from modelfleet.core.kept import entry, state_of
from modelfleet.core.placement.kept_on import Kept
from modelfleet.core.placement.want import Warm
from modelfleet.core.plan import Place, Plan
from modelfleet.core.pods import PodView
from modelfleet.core.snapshot import World

MOST_NODES, MOST_KEYS = 64, 4
"""So many nodes are remembered, and of each so many models: those that were used last."""

_AGE_S = 7 * 86400.0  # where the class bounds no age
_LOOKS = 8  # a node with a living pod is written anew so often in the time after which it is forgotten
_HAS_COMPILED = {"Taken", "Kept"}


@dataclass(frozen=True)
class OnNode:
    """What a node holds, by the keys of plans, the newest first, and when a pod of ours was last seen there."""

    at: datetime
    weights: tuple[str, ...] = ()
    compiled: tuple[str, ...] = ()


Warmth = Mapping[str, OnNode]
"""By node."""


def decide_warmth(world: World, children: Children, fleet: tuple[Replica, ...], plans: Mapping[str, Plan]) -> Warmth:
    """What is known now."""
    found = dict(read_warmth(entry(state_of(children), names.WARMTH_KEY)))
    ages_s = [plan.weights.max_age_s for plan in plans.values() if _on_node(plan) and plan.weights]
    age_s = max(ages_s, default=0.0) or _AGE_S
    living: set[str] = set()
    for one in (pod for replica in fleet for pod in replica.pods):
        plan, pod = plans.get(one.revision or ""), children.pods.get(one.name, {})
        if plan is None or not one.placed or not one.node or not _on_node(plan) or not is_fetched(pod):
            continue
        living.add(one.node)
        found[one.node] = _seen(found.get(one.node), one, plan, world, timedelta(seconds=age_s / _LOOKS))
    if found and world.cluster is not None:
        nodes = {node.name: node.kept.get(children.owner.namespace) for node in world.cluster.nodes}
        found = {
            name: on if name in living else _without_evicted(on, nodes[name])
            for name, on in found.items()
            if name in nodes
        }
    young = {name: on for name, on in found.items() if (world.now - on.at).total_seconds() <= age_s}
    newest = sorted(young, key=lambda name: (-young[name].at.timestamp(), name))[:MOST_NODES]
    return {name: young[name] for name in sorted(newest) if young[name].weights or young[name].compiled}


def warm_for(plan: Plan, warmth: Warmth) -> Warm:
    """Where a replica of this plan starts sooner."""
    weights, compiled = (plan.store_key, plan.compiled_key) if _on_node(plan) else ("", "")
    return Warm(
        weights=frozenset(name for name, on in warmth.items() if weights and weights in on.weights),
        compiled=frozenset(name for name, on in warmth.items() if compiled and compiled in on.compiled),
        image=plan.image,
    )


def read_warmth(value: Mapping[str, Any]) -> Warmth:
    """What NAME-state holds; what cannot be read is left out."""
    found = {}
    for name, stored in raw.mapping(value, "nodes").items():
        at = raw.instant(stored, "at")
        if at is not None:
            found[str(name)] = OnNode(at, _keys(raw.at(stored, "weights")), _keys(raw.at(stored, "compiled")))
    return dict(list(found.items())[:MOST_NODES])


def warmth_entry(warmth: Warmth) -> dict[str, Any]:
    """As NAME-state holds it; empty where nothing is known."""
    nodes = {
        name: {"at": on.at.isoformat(), "weights": list(on.weights), "compiled": list(on.compiled)}
        for name, on in warmth.items()
    }
    return {"nodes": nodes} if nodes else {}


def to_keep(children: Children, warmth: Warmth) -> dict[str, dict[str, Any]]:
    """The entry by its key; nothing where there is and was none."""
    stored = entry(state_of(children), names.WARMTH_KEY)
    return {names.WARMTH_KEY: warmth_entry(warmth)} if warmth or stored else {}


def _seen(before: OnNode | None, one: PodView, plan: Plan, world: World, often: timedelta) -> OnNode:
    """With what a pod of ours tells by being there."""
    known = before or OnNode(world.now)
    weights, compiled = _first(plan.store_key, known.weights), known.compiled
    reading = reading_of(world.samples, one.uid)
    if plan.compiled and reading is not None and reading.start.compiled:
        others = tuple(key for key in compiled if key != plan.compiled_key)
        has = reading.start.compiled in _HAS_COMPILED
        compiled = _first(plan.compiled_key, compiled) if has else others
    now = OnNode(known.at, weights, compiled)
    return replace(now, at=world.now) if now != known or world.now - known.at > often else now


def _without_evicted(on: OnNode, kept: Kept | None) -> OnNode:
    """Less what a later list of the node's folder does not have."""
    if kept is None or kept.at <= on.at:
        return on
    return OnNode(
        on.at,
        tuple(key for key in on.weights if key in kept.weights),
        tuple(key for key in on.compiled if key in kept.compiled),
    )


def _on_node(plan: Plan) -> bool:
    return plan.weights is not None and plan.weights.place is Place.NODE


def _first(key: str, keys: Iterable[str]) -> tuple[str, ...]:
    """`key` among `keys`: where it is if it is there, else in front."""
    listed = tuple(keys)
    return listed if key in listed else (key, *listed)[:MOST_KEYS]


def _keys(value: Any) -> tuple[str, ...]:
    return tuple(str(each)[:64] for each in value[:MOST_KEYS]) if isinstance(value, list) else ()
