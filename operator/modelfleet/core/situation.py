"""Everything that a status tells about: what is wanted, what is observed, what is being done. Pure."""

from dataclasses import dataclass
from functools import cached_property

from modelfleet.api import names
from modelfleet.core import raw
from modelfleet.core.children import Children, is_left_over, name_taken
from modelfleet.core.intent import Intent
from modelfleet.core.pods import PodView
from modelfleet.core.revisions import Revision
from modelfleet.core.rollout import Step
from modelfleet.core.snapshot import World


@dataclass(frozen=True, kw_only=True)
class Situation:
    """One observed moment with what was decided about it. `revision` is the wanted one, None without a wish; `known`
    are all readable revisions by name; `moves` says whether this step writes anything."""

    world: World
    children: Children
    intent: Intent
    pods: tuple[PodView, ...]
    step: Step
    revision: Revision | None
    known: dict[str, Revision]
    moves: bool

    @cached_property
    def replicas(self) -> tuple[PodView, ...]:
        """Pods that stand for a replica: they exist, have not ended and are not being drained."""
        leaving = (pod for pod in self.pods if not pod.serving and pod.uid in self.step.victims)
        gone = {pod.uid for pod in leaving}
        return tuple(pod for pod in self.pods if not (pod.terminating or pod.finished or pod.uid in gone))

    @cached_property
    def serving(self) -> tuple[PodView, ...]:
        """Replicas that get requests: Ready, and selected by the Service."""
        return tuple(pod for pod in self.replicas if pod.ready and pod.serving)

    @cached_property
    def draining(self) -> tuple[PodView, ...]:
        """Pods on their way out: taken out of the Service by us, or asked to stop."""
        kept = {pod.uid for pod in self.replicas}
        return tuple(pod for pod in self.pods if pod.uid not in kept and not (pod.finished and not pod.terminating))

    @cached_property
    def current(self) -> tuple[PodView, ...]:
        """Replicas of the wanted revision, by slot; ended ones that are not replaced yet stand among them."""
        wanted = self.revision.name if self.revision else None
        return tuple(pod for pod in self.staying if pod.revision == wanted)

    @cached_property
    def staying(self) -> tuple[PodView, ...]:
        """Pods that no decision sends away, by slot."""
        stay = (pod for pod in self.pods if not pod.terminating and pod.uid not in self.step.victims)
        return tuple(sorted(stay, key=lambda pod: (pod.slot is None, pod.slot, pod.name)))

    @cached_property
    def old(self) -> tuple[PodView, ...]:
        """Replicas of other revisions."""
        wanted = self.revision.name if self.revision else None
        return tuple(pod for pod in self.replicas if pod.revision != wanted)

    @property
    def wanted(self) -> int:
        """The wanted number of replicas; 0 without a wish."""
        return self.intent.wish.replicas.replicas if self.intent.wish else 0

    @property
    def minimum(self) -> int:
        """minReplicas; at least 1, also where the spec cannot be read."""
        return max(1, raw.integer(self.world.deployment, "spec", "scaling", "minReplicas", default=1))

    @property
    def lost(self) -> PodView | None:
        """A pod of the wanted revision that ended, or that somebody deletes while it is missed."""
        if self.revision is None:
            return None
        own = [pod for pod in self.pods if pod.revision == self.revision.name]
        missing = len([pod for pod in own if not (pod.terminating or pod.finished)]) < self.wanted
        return next((pod for pod in own if pod.finished or (pod.terminating and missing)), None)

    @property
    def taken(self) -> tuple[str, ...]:
        """Sentences about objects of others that hold the name of our Service, plan or revision."""
        return tuple(
            name_taken(kind, self.children.foreign[kind, name], self.children.owner)
            for kind, name in self._needed
            if (kind, name) in self.children.foreign
        )

    @property
    def only_left_overs(self) -> bool:
        """The taken names are held by an earlier object's children, which are on their way out."""
        held = [self.children.foreign[key] for key in self._needed if key in self.children.foreign]
        return all(is_left_over(other, self.children.owner) for other in held)

    @property
    def plan_blocked(self) -> bool:
        """Somebody else holds the name under which the plan would be pinned or handed to workers."""
        return any(key in self.children.foreign for key in self._needed if key[0] != "Service")

    @property
    def _needed(self) -> tuple[tuple[str, str], ...]:
        owner = self.children.owner.name
        service = ("Service", names.child(owner))
        if self.revision is None:
            return (service,)
        plan = names.revision(owner, self.revision.name)
        return (service, ("ConfigMap", plan), ("ControllerRevision", plan))
