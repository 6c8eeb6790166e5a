"""What a pod of a group is told of itself and its leader. Pure."""

from hashlib import sha256
from typing import Any

from modelfleet.api import names
from modelfleet.core.render.metadata import Owner


def member_env(owner: Owner, revision: str, slot: int, rank: int, leader_host: str) -> list[dict[str, Any]]:
    """The variables of a member's container. The token keeps a member from joining another replica's group by mistake;
    it is no secret."""
    token = sha256(f"{owner.uid}/{revision}/{slot}".encode()).hexdigest()[:16]
    of_pod = {names.POD_IP_VARIABLE: "status.podIP", names.NODE_VARIABLE: "spec.nodeName"}
    return [
        {"name": names.RANK_VARIABLE, "value": str(rank)},
        {"name": names.LEADER_VARIABLE, "value": leader_host},
        {"name": names.GROUP_TOKEN_VARIABLE, "value": token},
        *(
            {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
            for name, path in of_pod.items()
        ),
    ]
