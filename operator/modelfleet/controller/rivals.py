"""Other installations in the cluster: no namespace is served by two. I/O: reads the Leases of all of them.

Each installation's Lease carries a label, by which the others find it, and names the namespaces that its holder serves.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from modelfleet.api import names
from modelfleet.controller import election
from modelfleet.controller.cluster import LEASES, Cluster
from modelfleet.controller.election import Sight, Step, Timing
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
        self._seen: dict[Address, Sight] = {}

    @property
    def marks(self) -> dict[str, Any]:
        """The metadata by which others find our Lease and read what we serve."""
        return {
            "labels": {names.LEASE_LABEL: names.LEADER_LEASE},
            "annotations": {names.SERVES_ANNOTATION: ",".join(sorted(self._namespaces))},
        }

    async def find(self) -> str | None:
        """The sentence about one that leads now and shares a namespace with us. Raises ApiError.

        A holder counts as leading until its record has been seen unchanged for its whole duration by our own clock.
        """
        now_s = asyncio.get_running_loop().time()
        seen, rivals = {}, []
        for stored in await self._cluster.list(LEASES, None, _SELECTOR):
            address = (stored["metadata"]["namespace"], stored["metadata"]["name"])
            if address == self._own:
                continue
            seen[address] = election.see(self._seen.get(address), election.read(stored.get("spec")), now_s)
            shared = _shared(self._namespaces, _served(stored))
            if shared and election.decide(seen[address], _NOBODY, now_s, self._timing).step is Step.WAIT:
                rivals.append(_sentence(address, seen[address].record.holder, shared))
        self._seen = seen
        return min(rivals, default=None)


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
