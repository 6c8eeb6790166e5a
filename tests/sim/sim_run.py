"""One run of a fleet in trouble, by its seed: checks at each step, then good times, in which it must come to rest."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from sim_checks import faults_at_rest, faults_of_decision, faults_of_writes, look
from sim_fleet import Fleet
from sim_hands import HANDS, OF_CLASSES, none_by_others

from modelfleet.core import raw
from modelfleet.core.effects import Outcome
from modelfleet.core.stage import Happening

AT_ONCE = 12
"""Decisions in a row without anything happening in between; more is an endless loop."""

TO_REST = 150
"""Things that may happen until a mended fleet is at rest."""


@dataclass(frozen=True)
class Broken(Exception):  # noqa: N818 - what a run is told to have found
    """What did not hold, and the story up to there."""

    seed: int
    fault: str
    told: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join((f"seed {self.seed}: {self.fault}", *self.told))


@dataclass
class Run:
    """A seed's run. `decisions` counts what was decided."""

    seed: int
    decisions: int = 0

    def __post_init__(self) -> None:
        self.choose = random.Random(self.seed)
        # Draws of their own, so that what else a seed stands for is the same as without classes and surges.
        self.beside = random.Random(f"classes of {self.seed}").choice((0, 0, 0, 1, 3))
        self.fleet = Fleet(self.choose, self.beside, random.Random(f"surge of {self.seed}").choice((0, 1, 1)))

    def play(self) -> int:
        """The whole run. Raises Broken; gives how many decisions it took."""
        for _ in range(self.choose.randint(3, 9)):
            if self.choose.random() < 0.5:
                self.fleet.trouble((*HANDS, *OF_CLASSES) if self.beside else HANDS)
            outcome = self._decide_at_once()
            self.fleet.pass_time(outcome.wake_after_s)
        none_by_others(self.fleet)
        self.fleet.mend()
        self._rest()
        return self.decisions

    def _decide_at_once(self) -> Outcome:
        """Decides until nothing is to be done before something else happens."""
        before = look(self.fleet.stage)
        for _ in range(AT_ONCE):
            outcome = self.fleet.decide()
            self.decisions += 1
            killed = len(self.fleet.told)
            self.fleet.operator(outcome)
            now = look(self.fleet.stage) if outcome.effects else before
            whole = len(self.fleet.told) == killed
            faults = faults_of_decision if whole else faults_of_writes
            for fault in faults(before, now, outcome, self._wanted(outcome)):
                raise Broken(self.seed, fault, tuple(self._story(outcome)))
            before = now
            if not outcome.effects:
                return outcome
        raise Broken(self.seed, f"{AT_ONCE} decisions in a row did something", tuple(self._story(outcome)))

    def _rest(self) -> None:
        for _ in range(TO_REST):
            outcome = self._decide_at_once()
            happened = self.fleet.stage.happen(outcome.wake_after_s)
            if happened is Happening.NOTHING:
                break
        reasons = {raw.text(each, "type"): raw.text(each, "reason") for each in raw.items(outcome.status, "conditions")}
        for fault in faults_at_rest(look(self.fleet.stage), outcome):
            raise Broken(self.seed, fault, tuple(self._story(outcome)))
        count = len(look(self.fleet.stage).serving)
        if reasons["Progressing"] != "Settled" or reasons["Ready"] != "Serving" or count != self._wanted(outcome):
            raise Broken(self.seed, f"it does not come to rest: {count} serve, {reasons}", tuple(self._story(outcome)))

    def _wanted(self, outcome: Outcome) -> int:
        """What the user wants, as far as maxAccelerators, where there is one, allows."""
        scaling = self.fleet.stage.deployment["spec"]["scaling"]
        wish, bounded = int(scaling["replicas"]), scaling.get("maxAccelerators") is not None
        decided = raw.integer(outcome.status, "scaling", "lastDecision", "to", default=wish)
        return min(wish, decided) if bounded else wish

    def _story(self, outcome: Outcome) -> Iterator[str]:
        yield from self.fleet.told
        yield from (f"{kind} {name}" for kind, name in sorted(self.fleet.stage.objects) if kind == "Pod")
        yield from (f"{type(effect).__name__} {getattr(effect, 'name', '')}" for effect in outcome.effects)
        for each in raw.items(outcome.status, "conditions"):
            yield f"{raw.text(each, 'type')} {raw.text(each, 'reason')}: {raw.text(each, 'message')}"


def told_of(seed: int) -> str:
    """What did not hold in the run of this seed, as a text; empty if all did."""
    try:
        return "" if Run(seed).play() > 0 else f"seed {seed}: nothing was decided"
    except Broken as found:
        return str(found)
    except Exception as error:
        error.add_note(f"seed {seed}")
        raise
