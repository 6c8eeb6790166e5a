"""The children of one ModelDeployment as they are observed: which are ours, and which names others hold. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from modelfleet.api import names
from modelfleet.core import raw
from modelfleet.core.render.metadata import Owner
from modelfleet.core.snapshot import World


@dataclass(frozen=True, kw_only=True)
class Children:
    """Raw children by name, each kind apart; `job_pods` are the pods of our Jobs. `foreign` are objects that are not
    ours, by (kind, name)."""

    owner: Owner
    pods: Mapping[str, Any]
    services: Mapping[str, Any]
    config_maps: Mapping[str, Any]
    revisions: Mapping[str, Any]
    budgets: Mapping[str, Any]
    policies: Mapping[str, Any]
    jobs: Mapping[str, Any]
    job_pods: Mapping[str, Any]
    foreign: Mapping[tuple[str, str], Any]
    slices: Mapping[str, Any] = field(default_factory=dict)

    def pod_name_exists(self, name: str) -> bool:
        """Whether anything holds a pod's name."""
        return name in self.pods or ("Pod", name) in self.foreign


def owner_of(world: World) -> Owner:
    """The ModelDeployment as its children name it."""
    metadata = raw.mapping(world.deployment, "metadata")
    return Owner(raw.name(world.deployment), raw.text(metadata, "namespace"), raw.uid(world.deployment))


def observe(world: World, owner: Owner) -> Children:
    """Sorts what was listed, and what was found under a child's name, by who controls it.

    Ours is what our uid controls, also if its labels are gone; everything else is somebody else's and never touched.
    """
    foreign: dict[tuple[str, str], Any] = {}

    def ours(kind: str, listed: Iterable[Any]) -> dict[str, Any]:
        found = {}
        for item in (*(taken for (of, _), taken in world.taken.items() if of == kind), *listed):
            if not isinstance(item, Mapping) or not raw.name(item):
                continue
            if owner.uid and raw.controller(item).get("uid") == owner.uid:
                found[raw.name(item)] = item
            else:
                foreign[kind, raw.name(item)] = item
        return found

    jobs = ours("Job", world.jobs)
    by_job = {raw.uid(job) for job in jobs.values()} - {""}
    of_jobs = {raw.name(pod): pod for pod in world.pods if raw.text(raw.controller(pod), "uid") in by_job}
    return Children(
        owner=owner,
        pods=ours("Pod", (pod for pod in world.pods if raw.name(pod) not in of_jobs)),
        services=ours("Service", world.services),
        config_maps=ours("ConfigMap", world.config_maps),
        revisions=ours("ControllerRevision", world.revisions),
        budgets=ours("PodDisruptionBudget", world.budgets),
        policies=ours("NetworkPolicy", world.policies),
        slices=ours("EndpointSlice", world.slices),
        jobs=jobs,
        job_pods=of_jobs,
        foreign=foreign,
    )


def is_left_over(other: Any, owner: Owner) -> bool:
    """Whether an object belongs to an earlier ModelDeployment of this name, and so is being garbage-collected."""
    reference = raw.controller(other)
    return (
        reference.get("kind") == names.DEPLOYMENT_KIND
        and reference.get("name") == owner.name
        and str(reference.get("apiVersion", "")).startswith(f"{names.GROUP}/")
    )


def name_taken(kind: str, other: Any, owner: Owner) -> str:
    """A sentence that names the object that holds a child's name, its owner and the remedy."""
    what = f"{kind} {raw.name(other)}"
    if is_left_over(other, owner):
        return f"{what} is left over from an earlier {owner.name} and is being deleted; it is waited for"
    reference = raw.controller(other)
    whose = f"belongs to {reference.get('kind')} {reference.get('name')}" if reference else "has no owner"
    return (
        f"{what} has a name that {owner.name} needs and {whose}; it is not touched: delete or rename it, or give the"
        " ModelDeployment another name"
    )
