"""The ControllerRevision that pins a plan. Pure."""

from collections.abc import Mapping
from typing import Any

from modelfleet.api import names
from modelfleet.core.plan import Plan
from modelfleet.core.render.metadata import Owner, metadata


def controller_revision(
    owner: Owner, digest: str, plan: Plan, number: int, spec: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The ControllerRevision of the inputs with this `digest`; the current revision has the highest `number`. `spec` is
    the part of the user's spec that it was made from, for `modelfleet rollback`."""
    rev = digest[:8]
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": metadata(owner, names.revision(owner.name, rev), {names.REVISION_LABEL: rev}),
        "data": {"inputs": digest, "plan": plan.to_json()} | ({"spec": dict(spec)} if spec else {}),
        "revision": number,
    }
