"""What the pods of a group carry besides those of a replica on one node: who each is, and where the others are. Pure."""

from hashlib import sha256
from typing import Any

from modelfleet.api import names
from modelfleet.core.plan import Plan
from modelfleet.core.render.metadata import Owner

GROUP_PORT = {"name": "group", "containerPort": names.GROUP_PORT, "protocol": "TCP"}
"""The port at which a leader's worker hears the others; the engine's own ports are chosen at its start."""


def plan_of_group(plan: Plan) -> dict[str, Any]:
    """`group` of plan.json (docs/architecture.md, the worker's contract)."""
    return {"nodes": plan.nodes, "data": plan.data, "masterPort": names.MASTER_PORT}


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
