"""The PodDisruptionBudget of a ModelDeployment: how many of its pods Kubernetes leaves alone at an eviction. Pure."""

from typing import Any

from modelfleet.api import names
from modelfleet.core.render.metadata import Owner, metadata


def disruption_budget(owner: Owner, minimum_pods: int) -> dict[str, Any]:
    """The budget. `minAvailable` is a number of pods: a percentage and maxUnavailable are counted by a scale that pods
    owned by a custom resource do not have. What is not Ready may always be evicted, so that a broken pod holds no node.
    """
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(owner, names.child(owner.name)),
        "spec": {
            "minAvailable": minimum_pods,
            "selector": {"matchLabels": {names.DEPLOYMENT_LABEL: owner.label, names.ROLE_LABEL: "serve"}},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }
