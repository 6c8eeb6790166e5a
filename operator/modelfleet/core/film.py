"""The film of a rollout: the real decision, taken again and again on a cluster in memory, as sentences. Pure.

Times are symbolic: a frame says what is waited for, not for how long. Revisions are letters in the order in which they
came, and a replica is its revision's letter and its slot.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from modelfleet.api import names
from modelfleet.api.conditions import ConditionType
from modelfleet.core import raw
from modelfleet.core.children import observe
from modelfleet.core.effects import Apply, Create, Delete, Effect, Lift, Outcome
from modelfleet.core.groups import Replica
from modelfleet.core.placement.project import pinned_node
from modelfleet.core.pods import view
from modelfleet.core.render.metadata import Owner
from modelfleet.core.revisions import Revision, fleet_of, pinned
from modelfleet.core.stage import Happening, Stage

MOST_FRAMES = 200
"""A film that is longer is cut: it would be of hundreds of replicas."""

_QUIET = 3  # so many decisions in a row that do nothing, with only time to wait for, are the end

Story = Mapping[int, Callable[[Stage], str]]
"""What somebody does before a frame, by its number: a change of the stage, told in a sentence."""


@dataclass(frozen=True)
class Frame:
    """One moment: what replicas do, what is done about it, what Progressing says if it says something new, and what
    happens next. `told` is what somebody did just before."""

    stands: tuple[str, ...]
    does: tuple[str, ...]
    says: str
    then: Happening
    told: str = ""


@dataclass
class Film:
    """Frames of a stage. `letters` are the revisions' and those of their pools on later classes, by their names;
    `classes` are the later ones."""

    stage: Stage
    story: Story = field(default_factory=dict)
    letters: dict[str, str] = field(default_factory=dict)
    classes: dict[str, str] = field(default_factory=dict)
    frames: list[Frame] = field(default_factory=list)

    def run(self) -> "Film":
        """Takes the film to its end: nothing to do and nothing to wait for."""
        said, quiet = "", 0
        while len(self.frames) < MOST_FRAMES and quiet < _QUIET:
            change = self.story.get(len(self.frames))
            told = change(self.stage) if change is not None else ""
            stands = tuple(self._stands())
            deeds, outcome = self._decide()
            then, now = self._happen(outcome.wake_after_s), _says(outcome)
            seen = deeds or told or now != said or then not in (Happening.BOUND, Happening.WAITED)
            quiet = 0 if seen else quiet + 1
            if seen:
                self.frames.append(Frame(stands, tuple(deeds), now if now != said else "", then, told))
            said = now
            if then is Happening.NOTHING and not any(number >= len(self.frames) for number in self.story):
                break
        return self

    def _happen(self, wake_after_s: float | None) -> Happening:
        """What comes next; a long wait ends when somebody does something."""
        waits = self.stage.next(wake_after_s) is Happening.WAITED
        return self.stage.happen(None if waits and len(self.frames) + 1 in self.story else wake_after_s)

    def _decide(self) -> tuple[list[str], Outcome]:
        """Decides until nothing more is to be done at once."""
        deeds: list[str] = []
        while True:
            before = {raw.name(pod): pod for pod in self.stage.pods()}
            outcome = self.stage.reconcile()
            after = before | {raw.name(pod): pod for pod in self.stage.pods()}
            self._name_revisions()
            deeds += [deed for deed in self._deeds(outcome.effects, before, after) if deed not in deeds]
            if not outcome.effects:
                return deeds, outcome

    def _known(self) -> dict[str, Revision]:
        return pinned(observe(self.stage.world(), _owner(self.stage)))

    def _fleet(self) -> tuple[Replica, ...]:
        owner = _owner(self.stage)
        pods = tuple(view(pod, owner.name) for pod in self.stage.pods())
        return fleet_of(pods, self._known().values())

    def _name_revisions(self) -> None:
        for each in sorted(self._known().values(), key=lambda known: (known.number, known.name)):
            self.letters.setdefault(each.name, _letter(len(self.letters)))
            self.classes |= {pool.name: pool.plan.class_name for pool in each.later}

    def _label(self, revision: str | None, slot: int | None) -> str:
        letter = self.letters.setdefault(str(revision), _letter(len(self.letters)))
        return f"{letter}{'?' if slot is None else slot}"

    def _stands(self) -> Iterator[str]:
        """What each replica does, those alike together."""
        self._name_revisions()
        alike: dict[str, list[str]] = {}
        for replica in self._fleet():
            alike.setdefault(_doing(replica), []).append(self._label(replica.pool, replica.slot))
        for doing in sorted(alike, key=list(_VERBS).index):
            labels = sorted(alike[doing])
            yield f"{' '.join(labels)} {doing if len(labels) > 1 else _VERBS[doing]}"

    def _deeds(self, effects: tuple[Effect, ...], before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
        """What is done to replicas, each once; what is done to other objects goes without saying."""
        places: dict[str, list[str]] = {}
        told: dict[str, None] = {}
        for effect in effects:
            verb, name = _done(effect, before)
            if not verb:
                continue
            one = view(after[name], _owner(self.stage).name)
            label = self._label(one.revision, one.slot)
            if verb == _PLACES:
                places.setdefault(label, []).insert(0, pinned_node(after[name]))
            else:
                told[verb.format(label)] = None
        yield from told
        for label, nodes in places.items():
            yield f"places {label} on {', '.join(nodes)}"


_PLACES = "places"


def _done(effect: Effect, before: Mapping[str, Any]) -> tuple[str, str]:
    """What is done to which pod; empty where it is none of a replica's, or nothing that a film tells."""
    match effect:
        case Create(manifest) if manifest["kind"] == "Pod":
            return "creates {}", raw.name(manifest)
        case Lift(name, _):
            return _PLACES, name
        case Delete(_, "Pod", name, _):
            return "deletes {}", name
        case Apply(manifest, _) if manifest["kind"] == "Pod":
            name = raw.name(manifest)
            was, now = (raw.text(pod, "metadata", "labels", names.SERVING_LABEL) for pod in (before[name], manifest))
            if was == now:
                return "", ""
            return ("takes {} out of the Service" if now == "false" else "puts {} back into the Service"), name
    return "", ""


_VERBS = {
    "serve": "serves",
    "start": "starts",
    "wait for a node": "waits for a node",
    "fail": "fails",
    "drain": "drains",
    "end": "ends",
    "have ended": "has ended",
}


def _doing(replica: Replica) -> str:
    """What a replica does, of several."""
    if replica.terminating:
        return "end"
    if replica.finished:
        return "have ended"
    if replica.ready:
        return "serve" if replica.serving else "drain"
    if replica.failure is not None:
        return "fail"
    return "start" if replica.placed else "wait for a node"


def _letter(index: int) -> str:
    return chr(ord("a") + index) if index < 26 else f"r{index}-"


def _owner(stage: Stage) -> Owner:
    deployment = stage.deployment
    return Owner(raw.name(deployment), raw.text(deployment, "metadata", "namespace"), raw.uid(deployment))


def _says(outcome: Outcome) -> str:
    """Reason and sentence of Progressing, or of what keeps it from being looked at."""
    found = {raw.text(each, "type"): each for each in raw.items(outcome.status, "conditions")}
    asked = (ConditionType.ACCEPTED, ConditionType.PLANNED)
    first = next((each for each in asked if raw.text(found.get(each), "status") != "True"), ConditionType.PROGRESSING)
    return f"{raw.text(found.get(first), 'reason')}: {raw.text(found.get(first), 'message')}"


def lines(film: Film) -> Iterator[str]:
    """The film as text: for each frame what stands, what is done, what is said, what is waited for."""
    for name, letter in film.letters.items():
        on = f"class {film.classes[name]} of a revision, " if name in film.classes else "revision "
        yield f"{letter} is {on}{name}"
    for number, frame in enumerate(film.frames):
        if frame.told:
            yield f"   {frame.told}"
        yield f"{number:>2} {'; '.join(frame.stands) or 'nothing is there'}"
        if frame.does:
            yield f"   → {'; '.join(frame.does)}"
        if frame.says:
            yield f"   {frame.says}"
        if frame.then is not Happening.NOTHING:
            yield f"   … {frame.then}"
    if len(film.frames) >= MOST_FRAMES:
        yield f"   the film goes on; it is cut after {MOST_FRAMES} frames"
