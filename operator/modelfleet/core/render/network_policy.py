"""The NetworkPolicy of one replica over several nodes: only its own members reach the ports of its group. Pure."""

from typing import Any

from modelfleet.api import names
from modelfleet.core.render.metadata import Owner, metadata


def network_policy(owner: Owner, revision: str, slot: int) -> dict[str, Any]:
    """The policy, under the name of the leader's pod.

    An engine's ranks talk over many ports that it chooses at its start, none of which asks who is there. The API and
    the status port stay open: clients, kubelets and Prometheus call them, and no policy can name a kubelet. What a pod
    sends is not limited.
    """
    labels = {names.REVISION_LABEL: revision, names.REPLICA_LABEL: str(slot)}
    name = names.pod(owner.name, revision, slot)
    members = {"matchLabels": {names.DEPLOYMENT_LABEL: owner.label, names.ROLE_LABEL: "serve", **labels}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(owner, name, labels),
        "spec": {
            "podSelector": members,
            "policyTypes": ["Ingress"],
            "ingress": [
                {"ports": [{"port": port, "protocol": "TCP"} for port in (names.HTTP_PORT, names.STATUS_PORT)]},
                {"from": [{"podSelector": members}]},
            ],
        },
    }
