"""The headless Service by which the pods of a revision's groups find each other. Pure.

One for each revision, under the name of its other objects: a pod's name is unique there, so that one Service names the
leaders of all its groups, and a fixed suffix could be another ModelDeployment's name.
"""

from typing import Any

from modelfleet.api import names
from modelfleet.core.render.metadata import Owner, metadata


def group_service(owner: Owner, revision: str) -> dict[str, Any]:
    """The Service. It publishes addresses that are not ready: members meet before they can serve."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(owner, names.revision(owner.name, revision), {names.REVISION_LABEL: revision}),
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            "selector": {names.DEPLOYMENT_LABEL: owner.label, names.REVISION_LABEL: revision},
            "ports": [{"name": "group", "port": names.GROUP_PORT, "targetPort": "group", "protocol": "TCP"}],
            "sessionAffinity": "None",
            "publishNotReadyAddresses": True,
        },
    }


def leader_host(owner: Owner, revision: str, slot: int) -> str:
    """The name of a group's leader as its members look it up."""
    return f"{names.pod(owner.name, revision, slot)}.{names.revision(owner.name, revision)}.{owner.namespace}.svc"
