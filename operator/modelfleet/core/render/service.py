"""The Service of a ModelDeployment: it routes to pods that serve and are not being drained. Pure."""

from typing import Any

from modelfleet.api import names
from modelfleet.core.render.metadata import Owner, metadata


def service(owner: Owner) -> dict[str, Any]:
    """The Service. Its selector names the serving label, so a pod leaves before it is asked to stop."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(owner, names.child(owner.name)),
        "spec": {
            "type": "ClusterIP",
            "selector": {names.DEPLOYMENT_LABEL: owner.label, names.SERVING_LABEL: "true"},
            "ports": [{"name": "http", "port": names.SERVICE_PORT, "targetPort": "http", "protocol": "TCP"}],
            "sessionAffinity": "None",
            "internalTrafficPolicy": "Cluster",
            "publishNotReadyAddresses": False,
        },
    }
