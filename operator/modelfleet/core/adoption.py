"""A revision that serves another wish too: a promise that changed and gives the same pods restarts none. Pure.

Where new inputs give a plan with the pods of the newest revision, that revision stays, and NAME-state keeps which
inputs it now stands for, with the figures that were predicted for them and the plans on other classes that they have
beside it. Losing that entry costs a plan, made once more.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from modelfleet.core import raw
from modelfleet.core.inputs import REVISION_DIGITS
from modelfleet.core.plan import Plan, Planned
from modelfleet.core.pools import BESIDE, OF_THE_OPERATOR, beside
from modelfleet.core.revisions import Revision


def adopted(entry: Mapping[str, Any], digest: str, known: Mapping[str, Revision]) -> tuple[Revision, Plan] | None:
    """The revision that stands for the inputs `digest` by NAME-state's entry, and its plan with their figures and with
    what they have on other classes."""
    revision = known.get(raw.text(entry, "revision")[:REVISION_DIGITS])
    if raw.text(entry, "inputs") != digest or revision is None or revision.digest != raw.text(entry, "revision"):
        return None
    plan = revision.plan
    if (plan.planned is None) != (raw.at(entry, "planned") is None):
        return None
    try:
        planned = Planned.model_validate(raw.at(entry, "planned")) if plan.planned is not None else None
    except ValidationError:
        return None
    return revision, plan.model_copy(update={"planned": planned, **beside(entry, plan)})


def adopt(known: Mapping[str, Revision], fresh: Plan, own_image: bool) -> Revision | None:
    """The newest revision, if its pods are those of the `fresh` plan. Without an image of the user's own (`own_image`)
    the image that is pinned stays: another operator's image is no reason to restart anything."""
    newest = max(known.values(), key=lambda each: (each.number, each.name), default=None)
    if newest is None or (newest.plan.planned is None) != (fresh.planned is None):
        return None
    own_image = own_image or raw.at(newest.spec, "engine", "image") is not None  # one that was taken back is no default
    return newest if _same_pods(newest.plan, fresh, own_image) else None


def standing_beside(stands: Revision, fresh: Plan, own_image: bool) -> tuple[Plan, ...]:
    """The plans on other classes once `stands` stands for `fresh`: one that gives the same pods stays as it is pinned,
    with the fresh figures."""
    pinned = {each.plan.class_name: each.plan for each in stands.later}
    return tuple(
        pinned[each.class_name].model_copy(update={"planned": each.planned})
        if each.class_name in pinned and _same_pods(pinned[each.class_name], each, own_image)
        else each
        for each in fresh.others
    )


def _same_pods(pinned: Plan, fresh: Plan, own_image: bool) -> bool:
    left_out = OF_THE_OPERATOR | BESIDE | (set() if own_image else {"image"})
    return pinned.model_dump(exclude=left_out) == fresh.model_dump(exclude=left_out)


def entry_of(digest: str, revision: Revision, fresh: Plan) -> dict[str, Any]:
    """What NAME-state keeps: the inputs, the revision that stands for them, their figures, and what they have on other
    classes where the revision has something else pinned."""
    said: dict[str, Any] = {"inputs": digest, "revision": revision.digest}
    if fresh.planned is not None:
        said["planned"] = fresh.planned.model_dump(mode="json", by_alias=True, exclude_none=True)
    if (fresh.others, fresh.unused) != (revision.plan.others, revision.plan.unused):
        said["others"] = [each.to_json() for each in fresh.others]
        said["unused"] = [each.model_dump(mode="json", by_alias=True) for each in fresh.unused]
    return said
