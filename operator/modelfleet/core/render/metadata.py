"""The metadata that every child object carries: our owner reference and labels. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from modelfleet.api import names


@dataclass(frozen=True)
class Owner:
    """The ModelDeployment that owns the children."""

    name: str
    namespace: str
    uid: str

    @property
    def label(self) -> str:
        """The value of the deployment label: the name, cut to what a label holds."""
        return names.child(self.name)

    @property
    def selector(self) -> str:
        """Selects the pods that stand for a replica each (rank 0), as `status.selector` says it."""
        return f"{names.DEPLOYMENT_LABEL}={self.label},{names.RANK_LABEL}=0"


def metadata(owner: Owner, name: str, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Metadata of a child. The owner reference has no blockOwnerDeletion: a foreground deletion waits for nobody."""
    reference = {
        "apiVersion": names.API_VERSION,
        "kind": names.DEPLOYMENT_KIND,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
    }
    ours = {names.DEPLOYMENT_LABEL: owner.label, names.MANAGED_BY_LABEL: names.MANAGED_BY}
    return {
        "name": name,
        "namespace": owner.namespace,
        "labels": {**ours, **(labels or {})},
        "ownerReferences": [reference],
    }
