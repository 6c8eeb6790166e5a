"""Which replicas have a NetworkPolicy: those over several nodes, from before their first pod until their last. Pure."""

from collections.abc import Iterable, Iterator

from modelfleet.api import names
from modelfleet.core import raw
from modelfleet.core.children import Children
from modelfleet.core.drift import delete, put_back
from modelfleet.core.effects import Create, Effect
from modelfleet.core.groups import Replica
from modelfleet.core.render.network_policy import network_policy


def fenced(fleet: Iterable[Replica], creates: Iterable[Create]) -> frozenset[tuple[str, int]]:
    """The pool's name and the slot of each group that is there, and of those whose pods are about to be made."""
    there = {(r.pool, r.slot) for r in fleet if r.size > 1 and r.pool is not None and r.slot is not None}
    members = (create.manifest for create in creates if raw.text(create.manifest, "spec", "subdomain"))
    labels = (raw.mapping(member, "metadata", "labels") for member in members)
    return frozenset(there | {(str(each[names.REVISION_LABEL]), int(each[names.REPLICA_LABEL])) for each in labels})


def keep_policies(children: Children, groups: Iterable[tuple[str, int]]) -> Iterator[Effect]:
    """The effects that keep a policy for each group; one of a group that is gone goes."""
    wanted = {raw.name(manifest): manifest for manifest in (network_policy(children.owner, *one) for one in groups)}
    for name, manifest in sorted(wanted.items()):
        if name in children.policies:
            yield from put_back(children.policies[name], manifest)
        elif ("NetworkPolicy", name) not in children.foreign:
            yield Create(manifest)
    for name, item in sorted(children.policies.items()):
        if name not in wanted and raw.at(item, "metadata", "deletionTimestamp") is None:
            yield delete(item, {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"})
