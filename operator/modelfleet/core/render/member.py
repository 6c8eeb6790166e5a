"""What a member of a group is told by its pod: who it is, and where its leader is. Pure."""

from hashlib import sha256
from typing import Any

from modelfleet.api import names
from modelfleet.core.render.metadata import Owner


def member_env(owner: Owner, revision: str, slot: int, rank: int, leader_host: str) -> list[dict[str, Any]]:
    """The environment of rank `rank`; `leader_host` is the DNS name of rank 0."""
    literal = {
        names.RANK_VARIABLE: str(rank),
        names.LEADER_VARIABLE: leader_host,
        names.GROUP_TOKEN_VARIABLE: token(owner, revision, slot),
    }
    fields = {names.POD_IP_VARIABLE: "status.podIP", names.NODE_VARIABLE: "spec.nodeName"}
    return [
        *({"name": name, "value": value} for name, value in literal.items()),
        *(
            {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
            for name, path in fields.items()
        ),
    ]


def token(owner: Owner, revision: str, slot: int) -> str:
    """What the members of one replica know and others do not: no worker joins another replica by mistake.

    No secret from those who may read pods, as the engine's own traffic is not; the NetworkPolicy is what keeps others
    out.
    """
    return sha256(f"{owner.uid}/{revision}/{slot}".encode()).hexdigest()
