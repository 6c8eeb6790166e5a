"""The ControllerRevision that pins a plan. Pure."""

from typing import Any

from modelfleet.api import names
from modelfleet.core.plan import Plan
from modelfleet.core.render.metadata import Owner, metadata


def controller_revision(owner: Owner, digest: str, plan: Plan, number: int) -> dict[str, Any]:
    """The ControllerRevision of the inputs with this `digest`; the current revision has the highest `number`."""
    rev = digest[:8]
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": metadata(owner, names.revision(owner.name, rev), {names.REVISION_LABEL: rev}),
        "data": {"inputs": digest, "plan": plan.to_json()},
        "revision": number,
    }
