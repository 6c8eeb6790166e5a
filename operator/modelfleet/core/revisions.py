"""The ControllerRevisions of a ModelDeployment: which one is current, what each pins, which are let go. Pure.

A revision is named after the hash of its inputs. If one with the current name exists, its pinned plan counts as it is,
whatever this operator would plan today; a spec that is set back finds its old revision again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from modelfleet.api import names
from modelfleet.core import raw
from modelfleet.core.children import Children
from modelfleet.core.drift import delete, put_back
from modelfleet.core.effects import Create, Effect
from modelfleet.core.groups import Replica, replicas
from modelfleet.core.inputs import REVISION_DIGITS
from modelfleet.core.kept import entry, state_of
from modelfleet.core.plan import Plan, read
from modelfleet.core.pods import PodView
from modelfleet.core.pools import beside, pool_digest
from modelfleet.core.render.config_map import config_map
from modelfleet.core.render.revision import controller_revision

_HIGHEST = 2**63 - 1  # what the API server can store

NOT_PINNED = {"scaling", "rollout", "economics"}
"""Parts of a spec that no plan is made from: going back to a revision leaves them as they are."""

HISTORY_LIMIT = 10
"""Revisions without pods that are kept, so that a spec that is set back finds its plan again."""


@dataclass(frozen=True)
class Revision:
    """A pinned plan. `number` orders revisions; `digest` is the whole hash of the inputs; `spec` is what of the user's
    spec it was made from, None where a version before there was a rollback has pinned it."""

    digest: str
    number: int
    plan: Plan
    spec: Mapping[str, Any] | None = field(default=None, compare=False)
    later: "tuple[Revision, ...]" = field(default=(), compare=False)

    @property
    def pools(self) -> "tuple[Revision, ...]":
        """The pools in the order in which they are used: itself, then those on later classes."""
        return (self, *self.later)

    @property
    def name(self) -> str:
        """What pods carry in their name and label."""
        return self.digest[:REVISION_DIGITS]


def pinned(children: Children) -> dict[str, Revision]:
    """The readable revisions by name, with their pools. A damaged one, or one under a name that is not its hash's, is
    left out."""
    found = {}
    adoption = entry(state_of(children), names.ADOPTION_KEY)
    for name, item in children.revisions.items():
        digest = raw.text(item, "data", "inputs")
        plan = read(raw.at(item, "data", "plan"))
        revision = digest[:REVISION_DIGITS]
        if plan is not None and name == names.revision(children.owner.name, revision):
            spec = raw.at(item, "data", "spec")
            kept = spec if isinstance(spec, Mapping) else None
            plans = beside(adoption, plan)["others"] if adoption.get("revision") == digest else plan.others
            number = raw.integer(item, "revision")
            found[revision] = Revision(digest, number, plan, kept, later_pools(digest, number, plans))
    return found


def later_pools(digest: str, number: int, plans: Iterable[Plan]) -> tuple[Revision, ...]:
    """The pools of these plans on later classes, beside the revision `digest`."""
    made = (Revision(pool_digest(digest, plan), number, plan) for plan in plans)
    return tuple({each.name: each for each in made}.values())


def by_pool(known: Iterable[Revision]) -> dict[str, Revision]:
    """All pools of these revisions by their names."""
    return {pool.name: pool for revision in known for pool in revision.pools}


def fleet_of(pods: Iterable[PodView], known: Iterable[Revision]) -> tuple[Replica, ...]:
    """The replicas that pods make up; those of a later pool are replicas of its revision."""
    known = tuple(known)
    of = {pool.name: revision.name for revision in known for pool in revision.later}
    return replicas(pods, {name: pool.plan for name, pool in by_pool(known).items()}, of)


def of_its_pools(fleet: tuple[Replica, ...], goal: Revision) -> tuple[Replica, ...]:
    """The fleet, where a replica on a class that the goal does not use any more is not one of the goal's."""
    pools = {pool.name for pool in goal.pools}
    return tuple(
        replace(each, revision=each.pool) if each.revision == goal.name and each.pool not in pools else each
        for each in fleet
    )


def current(digest: str, fresh: Plan, known: Mapping[str, Revision], spec: Mapping[str, Any]) -> Revision:
    """The revision of these inputs: the pinned one if there is one, else a new one with the `fresh` plan, made from the
    raw `spec`. Its later pools are those of `fresh`, which has them as they stand. It has the highest number of all."""
    stored = known.get(digest[:REVISION_DIGITS])
    plan = stored.plan if stored is not None and stored.digest == digest else fresh
    others = [other.number for other in known.values() if other is not stored]
    highest = max(others, default=0)
    number = stored.number if stored is not None and stored.number > highest else min(highest + 1, _HIGHEST)
    later = later_pools(digest, number, fresh.others)
    if stored is not None and stored.digest == digest:
        return Revision(digest, number, plan, stored.spec, later)
    return Revision(digest, number, plan, {key: part for key, part in spec.items() if key not in NOT_PINNED}, later)


def keep(children: Children, wanted: Revision) -> list[Effect]:
    """The effects that pin `wanted` and hand it to its workers."""
    revision = controller_revision(children.owner, wanted.digest, wanted.plan, wanted.number, wanted.spec)
    stored = children.revisions.get(raw.name(revision))
    effects: list[Effect] = []
    if stored is None:
        effects += [] if blocked(children, "ControllerRevision", wanted.name) else [Create(revision)]
    elif raw.text(stored, "data", "inputs") == wanted.digest and read(raw.at(stored, "data", "plan")) == wanted.plan:
        effects += put_back(stored, {**revision, "data": stored["data"]})
    elif raw.at(stored, "metadata", "deletionTimestamp") is None:  # damaged; its data cannot be written
        effects += [delete(stored, revision), Create(revision)]
    return effects + keep_config_map(children, wanted)


def keep_config_map(children: Children, revision: Revision) -> list[Effect]:
    """The effects that keep the ConfigMap of a revision, which its pods mount again at every restart."""
    manifest = config_map(children.owner, revision.name, revision.plan)
    stored = children.config_maps.get(raw.name(manifest))
    if stored is None:
        return [] if blocked(children, "ConfigMap", revision.name) else [Create(manifest)]
    return list(put_back(stored, manifest))


def blocked(children: Children, kind: str, revision: str) -> bool:
    """Whether somebody else holds the name of a revision's child."""
    return (kind, names.revision(children.owner.name, revision)) in children.foreign


def let_go(children: Children, used: frozenset[str], known: Mapping[str, Revision]) -> list[Effect]:
    """Deletes revisions beyond the history and ConfigMaps that no revision needs. `used` are the current revision and
    those of existing pods."""
    unused = sorted((r for r in known.values() if r.name not in used), key=lambda r: (r.number, r.name), reverse=True)
    kept = used | {revision.name for revision in unused[:HISTORY_LIMIT]}
    names_kept = {names.revision(children.owner.name, revision) for revision in kept}
    names_kept |= {names.state(children.owner.name), names.promise(children.owner.name)}
    doomed = (
        (item, kind)
        for kind, group in (("ConfigMap", children.config_maps), ("ControllerRevision", children.revisions))
        for name, item in sorted(group.items())
        if name not in names_kept and raw.at(item, "metadata", "deletionTimestamp") is None
    )
    return [delete(item, {"apiVersion": _API_VERSION[kind], "kind": kind}) for item, kind in doomed]


_API_VERSION: Mapping[str, Any] = {"ConfigMap": "v1", "ControllerRevision": "apps/v1"}
