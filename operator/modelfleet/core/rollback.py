"""Back to an earlier revision: which one, and what of the spec it changes. Pure.

The operator writes no spec. Going back is the user's own write of the spec that the revision was made from, with the
numbers of replicas, the rollout's terms and the economics left as they are.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from modelfleet.core import raw
from modelfleet.core.inputs import REVISION_DIGITS
from modelfleet.core.revisions import NOT_PINNED

_DELIVERERS = ("argocd", "kustomize-controller", "helm-controller", "flux", "fleetagent", "rancher-fleet", "kapp")
"""Parts of the names under which tools that deliver from a repository write objects."""


class RollbackError(Exception):
    """There is nothing to go back to; the message is a sentence for the user."""


@dataclass(frozen=True, kw_only=True)
class Rollback:
    """`spec` is the whole spec to be written; `changed` are its top-level fields that differ. `from_` and `to` are
    revisions; `delivered_by` are managers that would put the spec back."""

    from_: str
    to: str
    spec: Mapping[str, Any]
    changed: tuple[str, ...]
    delivered_by: tuple[str, ...]


def history(revisions: Iterable[Any]) -> list[tuple[int, str, bool]]:
    """Number, name and whether it keeps its spec, of each revision, the newest first."""
    found = [
        (raw.integer(item, "revision"), _name(item), bool(raw.mapping(item, "data", "spec")))
        for item in revisions
        if _name(item)
    ]
    return sorted(found, reverse=True)


def decide_rollback(deployment: Any, revisions: Iterable[Any], to: str | None = None) -> Rollback:
    """The way back to the revision `to`; without it to the one that serves in place of the spec's, else to the newest
    before the spec's. Raises RollbackError."""
    own = (item for item in revisions if raw.text(raw.controller(item), "uid") == raw.uid(deployment))
    known = {_name(item): item for item in own if _name(item)}
    newest_first = [name for _, name, _ in history(known.values())]
    if not newest_first:
        raise RollbackError("it has no revision yet; the operator has made no plan for it")
    current, serving = newest_first[0], raw.text(deployment, "status", "plan", "revision")
    target = to or (serving if serving in known and serving != current else next(iter(newest_first[1:]), ""))
    if not target:
        raise RollbackError(f"{current} is its only revision, so there is none to go back to")
    if target not in known:
        raise RollbackError(f"it has no revision {target}; there are {', '.join(newest_first)}")
    pinned = raw.mapping(known[target], "data", "spec")
    if not pinned:
        raise RollbackError(
            f"revision {target} was made by a version that did not keep its spec; write the earlier spec by hand"
        )
    before = raw.mapping(deployment, "spec")
    spec = {**pinned, **{key: before[key] for key in sorted(NOT_PINNED) if key in before}}
    changed = tuple(sorted(key for key in {*before, *spec} if before.get(key) != spec.get(key)))
    if not changed:
        raise RollbackError(f"the spec is that of revision {target} already")
    return Rollback(from_=current, to=target, spec=spec, changed=changed, delivered_by=deliverers(deployment))


def patch(deployment: Any, rollback: Rollback) -> list[dict[str, Any]]:
    """The JSON patch that writes the spec, and only onto the object as it was read."""
    version = raw.text(deployment, "metadata", "resourceVersion")
    return [
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        {"op": "replace", "path": "/spec", "value": dict(rollback.spec)},
    ]


def deliverers(deployment: Any) -> tuple[str, ...]:
    """The managers of the object that deliver it from a repository, and so put back what others write."""
    managers = {raw.text(entry, "manager") for entry in raw.items(deployment, "metadata", "managedFields")}
    return tuple(sorted(manager for manager in managers if any(part in manager for part in _DELIVERERS)))


def _name(revision: Any) -> str:
    return raw.text(revision, "data", "inputs")[:REVISION_DIGITS]
