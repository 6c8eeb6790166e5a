"""A revision that serves another wish too: a promise that changed and gives the same pods restarts none. Pure.

Where new inputs give a plan with the pods of the newest revision, that revision stays, and NAME-state keeps which
inputs it now stands for, with the figures that were predicted for them. Losing that entry costs a plan, made once more.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from modelfleet.core import raw
from modelfleet.core.inputs import REVISION_DIGITS
from modelfleet.core.plan import Plan, Planned
from modelfleet.core.revisions import Revision

_OF_THE_OPERATOR = {
    "image_pull_policy",
    "limits",
    "planned",
    "promise",
    "engine_version",
    "accelerator_memory",
    "compiled",
}
"""Parts of a plan that no wish decides: the operator's settings and version when it was made, and the figures."""


def adopted(entry: Mapping[str, Any], digest: str, known: Mapping[str, Revision]) -> tuple[Revision, Plan] | None:
    """The revision that stands for the inputs `digest` by NAME-state's entry, and its plan with their figures."""
    revision = known.get(raw.text(entry, "revision")[:REVISION_DIGITS])
    if raw.text(entry, "inputs") != digest or revision is None or revision.digest != raw.text(entry, "revision"):
        return None
    try:
        planned = Planned.model_validate(raw.at(entry, "planned"))
    except ValidationError:
        return None
    return revision, revision.plan.model_copy(update={"planned": planned})


def adopt(known: Mapping[str, Revision], fresh: Plan, own_image: bool) -> Revision | None:
    """The newest revision, if its pods are those of the `fresh` plan. Without an image of the user's own (`own_image`)
    the image that is pinned stays: another operator's image is no reason to restart anything."""
    newest = max(known.values(), key=lambda each: (each.number, each.name), default=None)
    if newest is None or newest.plan.planned is None:
        return None
    left_out = _OF_THE_OPERATOR | (set() if own_image else {"image"})
    same = newest.plan.model_dump(exclude=left_out) == fresh.model_dump(exclude=left_out)
    return newest if same else None


def entry_of(digest: str, revision: Revision, fresh: Plan) -> dict[str, Any]:
    """What NAME-state keeps: the inputs, the revision that stands for them, their figures."""
    planned = fresh.planned.model_dump(mode="json", by_alias=True, exclude_none=True) if fresh.planned else {}
    return {"inputs": digest, "revision": revision.digest, "planned": planned}
