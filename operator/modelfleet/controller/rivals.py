"""Other installations in the cluster: no namespace is served by two. I/O: reads the Leases of all of them.

Each installation's Lease carries a label, by which the others find it, and names the namespaces that its holder serves.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from modelfleet.api import names
from modelfleet.controller import election
from modelfleet.controller.cluster import Cluster
from modelfleet.controller.election import Sight, Step, Timing
from modelfleet.controller.resources import LEASES
from modelfleet.core.snapshot import Raw

_EVERYWHERE = "*"
_NOBODY = ""  # an identity that no holder has
_SELECTOR = f"{names.LEASE_LABEL}={names.LEADER_LEASE}"

Address = tuple[str, str]  # namespace, name


class Rivals:
    """Looks for leaders of other installations that serve one of our namespaces."""

    def __init__(self, cluster: Cluster, own: Address, namespaces: Sequence[str], timing: Timing | None = None) -> None:
        """`own` is our Lease; `namespaces` those that we serve, none named being all."""
        self._cluster, self._own, self._timing = cluster, own, timing or Timing()
        self._namespaces = frozenset(namespaces) or frozenset({_EVERYWHERE})
        self._seen: dict[Address, _Seen] = {}

    @property
    def marks(self) -> dict[str, Any]:
        """The metadata by which others find our Lease and read what we serve."""
        return {
            "labels": {names.LEASE_LABEL: names.LEADER_LEASE},
            "annotations": {names.SERVES_ANNOTATION: ",".join(sorted(self._namespaces))},
        }

    async def find(self) -> str | None:
        """The sentence about one that leads now and shares a namespace with us. Raises ApiError.

        A holder counts as leading until its record has been seen unchanged, or gone, for its whole duration by our own
        clock: who has lost its Lease goes on writing for as long.
        """
        now_s = asyncio.get_running_loop().time()
        stored = await self._cluster.list(LEASES, None, _SELECTOR)
        there = {_address(lease): lease for lease in stored if _address(lease) != self._own}
        seen = {address: _Seen(self._sight(address, lease, now_s), _served(lease)) for address, lease in there.items()}
        for address in self._seen.keys() - there.keys():
            seen[address] = _Seen(self._sight(address, None, now_s), self._seen[address].served)
        self._seen = {address: each for address, each in seen.items() if self._leads(each, now_s) or address in there}
        rivals = {
            address: shared
            for address, each in self._seen.items()
            if self._leads(each, now_s) and (shared := _shared(self._namespaces, each.served))
        }
        if not rivals:
            return None
        first = min(rivals)
        return _sentence(first, self._seen[first].sight.record.holder, rivals[first])

    def _sight(self, address: Address, lease: Raw | None, now_s: float) -> Sight:
        before = self._seen.get(address)
        record = None if lease is None else election.read(lease.get("spec"))
        return election.see(None if before is None else before.sight, record, now_s)

    def _leads(self, seen: "_Seen", now_s: float) -> bool:
        return election.decide(seen.sight, _NOBODY, now_s, self._timing).step is Step.WAIT


@dataclass(frozen=True)
class _Seen:
    """What is known of another's Lease."""

    sight: Sight
    served: frozenset[str]


def _address(lease: Raw) -> Address:
    return str(lease["metadata"]["namespace"]), str(lease["metadata"]["name"])


def _served(lease: Raw) -> frozenset[str]:
    """The namespaces that a Lease's holder serves; all, if it does not say."""
    said = (lease["metadata"].get("annotations") or {}).get(names.SERVES_ANNOTATION) or _EVERYWHERE
    return frozenset(said.split(","))


def _shared(ours: frozenset[str], theirs: frozenset[str]) -> frozenset[str]:
    if _EVERYWHERE in ours:
        return theirs
    return ours if _EVERYWHERE in theirs else ours & theirs


def _sentence(lease: Address, holder: str, shared: frozenset[str]) -> str:
    many = len(shared) > 1
    what = f"namespaces {', '.join(sorted(shared))} are" if many else f"namespace {min(shared)} is"
    if _EVERYWHERE in shared:
        what = "all namespaces are"
    return (
        f"{what} served by another installation of modelfleet: {holder} holds the Lease {lease[0]}/{lease[1]};"
        " uninstall one of the two, or give each its own namespaces (the chart's operator.namespaces, --namespaces)"
    )
