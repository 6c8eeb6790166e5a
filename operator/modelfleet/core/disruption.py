"""How many pods Kubernetes must leave alone at an eviction, and the budget that says so. Pure.

One evicted pod ends its whole replica, so of all pods of the wanted replicas as many may go as replicas may be missing.
Pods that are Ready and on their way out by our own choice count as healthy for Kubernetes until they are deleted, so
they are added meanwhile.
"""

from collections.abc import Iterable, Iterator

from modelfleet.core import raw
from modelfleet.core.capacity import Spare
from modelfleet.core.children import Children
from modelfleet.core.drift import delete, put_back
from modelfleet.core.effects import Create, Effect
from modelfleet.core.groups import Replica
from modelfleet.core.render.disruption_budget import disruption_budget


def pods_to_leave(fleet: Iterable[Replica], victims: frozenset[str], size: int, spare: Spare) -> int:
    """How many Ready pods must stay. `victims` are the uids of replicas that leave, `size` is how many pods a replica
    to be made has; those that stand count as they are."""
    live = [replica for replica in fleet if not replica.terminating]
    staying = sorted((r for r in live if r.uid not in victims), key=lambda r: not r.ready)[: spare.replicas]
    leaving = sum(len(replica.pods) for replica in live if replica.uid in victims and replica.ready)
    whole = sum(replica.size for replica in staying) + (spare.replicas - len(staying)) * size
    return whole - spare.evictable + leaving


def keep_budget(children: Children, minimum_pods: int) -> Iterator[Effect]:
    """The effects that keep the budget; one that would protect nothing goes."""
    manifest = disruption_budget(children.owner, minimum_pods)
    name = raw.name(manifest)
    stored = children.budgets.get(name)
    if stored is None:
        if minimum_pods > 0 and ("PodDisruptionBudget", name) not in children.foreign:
            yield Create(manifest)
    elif minimum_pods <= 0:
        yield delete(stored, manifest)
    elif raw.at(stored, "spec", "maxUnavailable") is not None:
        yield from (delete(stored, manifest), Create(manifest))  # it excludes minAvailable, and is not ours to take off
    else:
        yield from put_back(stored, manifest)
