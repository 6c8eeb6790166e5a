"""The pools of a revision: its plan, and those on other classes, used where the classes before have no room. Pure.

A pool of a later class has a name of its own, of the form of a revision's, which its pods and their ConfigMap carry. It
is made from the revision and from what determines the pool's pods, so that it needs no place to be kept.
"""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from modelfleet.core import raw
from modelfleet.core.plan import Plan, Why

OF_THE_OPERATOR = {
    "image_pull_policy",
    "limits",
    "planned",
    "promise",
    "engine_version",
    "accelerator_memory",
    "compiled",
}
"""Parts of a plan that no wish decides: the operator's settings and version when it was made, and the figures."""

BESIDE = {"others", "unused"}
"""What a plan says of other classes, which none of its own pods depends on."""


def pool_digest(revision: str, plan: Plan) -> str:
    """The hash whose first digits name the pool of a later class; `revision` is the whole hash of its revision."""
    pods = plan.model_dump(mode="json", exclude=OF_THE_OPERATOR | BESIDE | {"image"}, exclude_defaults=True)
    text = json.dumps({"revision": revision, "pool": pods}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256(text.encode()).hexdigest()


def beside(entry: Mapping[str, Any], plan: Plan) -> dict[str, Any]:
    """What NAME-state's entry of an adoption says of other classes than that of `plan`, by fields of a plan; what the
    plan says itself where the entry says nothing."""
    pinned = {"others": plan.others, "unused": plan.unused}
    if raw.at(entry, "others") is None:
        return pinned
    try:
        found = _Beside.model_validate({"others": raw.at(entry, "others"), "unused": raw.at(entry, "unused") or ()})
    except ValidationError:
        return pinned
    return {"others": found.others, "unused": found.unused}


class _Beside(BaseModel):
    """What the entry holds of other classes."""

    others: Annotated[tuple[Plan, ...], Field(max_length=16)]
    unused: Annotated[tuple[Why, ...], Field(max_length=16)]
