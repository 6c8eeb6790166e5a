"""What is late for another reason than the load: suspected, sure, replaced one at a time with a back-off. Pure.

| what is seen | what follows |
| --- | --- |
| a replica is to blame (blame.py) | it is a suspect: its requests teach the policy nothing |
| a few are late in most of what they do, the others not | the same of all of them; one is the suspect |
| it has been for SURE_S, is also by what its warm engine did, and the last was PAUSE_S × 2^n ago | it is replaced |
| it is replaced and still there | no other is |
| the share is broken for certain, no replica is to blame, and replicas are not busy | said, and no replica is bought |
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from modelfleet.core.scaling.blame import Culprit, broken, culprits, done_by, tally_of
from modelfleet.core.scaling.interval import wilson
from modelfleet.core.scaling.memory import Fault, Finding, Kept
from modelfleet.core.scaling.observed import Tally
from modelfleet.core.scaling.samples import WINDOW_S, Samples

EVERY_S = 14.0
"""Faults are looked for so often: windows of minutes move little within seconds."""

SURE_S = 60.0
PAUSE_S = 600.0
MOST_DOUBLINGS = 4
"""Replacements are at most PAUSE_S × 2^4, 2 h 40 min, apart while they go on."""

_BUSY = 0.5  # of the knee, as the policy has it


@dataclass(frozen=True, kw_only=True)
class Look:
    """What is looked at: the promise's digest and the promised shares by objective; the serving pods and all that are
    there; what the load is of what serves."""

    promise: str
    targets: Mapping[str, float]
    serving: tuple[str, ...]
    present: frozenset[str]
    busy: float
    clock_s: float

    @property
    def target(self) -> float:
        """The lowest of the promised shares: a pod is judged over all of its requests."""
        return min(self.targets.values())


def find_faults(samples: Samples, look: Look, kept: Kept) -> Kept:
    """What is remembered after looking for faults."""
    done = done_by(samples, look.serving, look.promise, look.targets)
    beside = broken(done, look.target)
    suspect = _suspect(culprits(samples, done, beside, look.target), look, kept.suspect)
    slow = kept.slow
    if suspect is not None and _sure(samples, look, suspect) and _may_replace(look, slow):
        slow = replace(suspect, at_s=look.clock_s, count=_count(look, slow))
    late = _late(samples, look, kept.late) if suspect is None else None
    return replace(kept, suspect=suspect, slow=slow, late=late, broken=beside)


def _suspect(found: tuple[Culprit, ...], look: Look, before: Finding | None) -> Finding | None:
    """The one that was suspected, while it is to blame: of several that are equally slow another is the worst at every
    look. Else the worst."""
    if not found:
        return None
    same = next((each for each in found if before is not None and each.uid == before.about), None)
    chosen = same or found[0]
    since_s = before.at_s if same is not None and before is not None else look.clock_s
    return Finding(fault=Fault.SLOW_REPLICA, about=chosen.uid, sentence=chosen.sentence, at_s=since_s)


def aside(kept: Kept) -> frozenset[str]:
    """Pods whose late requests are not the load's."""
    return kept.broken | {each.about for each in (kept.suspect, kept.slow) if each is not None}


def _sure(samples: Samples, look: Look, suspect: Finding) -> bool:
    """Whether it has been slow for long enough, and not only because its engine was cold."""
    if look.clock_s - suspect.at_s < SURE_S:
        return False
    done = done_by(samples, look.serving, look.promise, look.targets, warm=True)
    return any(each.uid == suspect.about for each in culprits(samples, done, broken(done, look.target), look.target))


def _pause_s(slow: Finding) -> float:
    return PAUSE_S * float(1 << min(slow.count, MOST_DOUBLINGS))


def _may_replace(look: Look, slow: Finding | None) -> bool:
    if slow is None:
        return True
    return slow.about not in look.present and look.clock_s - slow.at_s >= _pause_s(slow)


def _count(look: Look, slow: Finding | None) -> int:
    """Replacements in a row; a pause of twice the back-off ends the row."""
    if slow is None or look.clock_s - slow.at_s > 2 * _pause_s(slow):
        return 0
    return slow.count + 1


def _late(samples: Samples, look: Look, before: Finding | None) -> Finding | None:
    """Stays while the share is below its target, so that it is told once."""
    if look.busy >= _BUSY:
        return None
    pods = (samples.pods[uid] for uid in look.serving if uid in samples.pods)
    total = sum((tally_of(pod, samples.at_s, look.promise, look.targets, WINDOW_S) for pod in pods), Tally())
    target = look.target
    if not total.ended or total.good / total.ended >= target:
        return None
    if before is not None:
        return before
    share = wilson(total.good, total.ended)
    if share.high >= target:
        return None
    sentence = (
        f"at most {share.high:.0%} of the requests keep the promise of {target:.3%}, and the load is"
        f" {look.busy:.0%} of what the replicas can do: no further replica mends it"
    )
    return Finding(fault=Fault.LATE_WITHOUT_LOAD, about="", sentence=sentence, at_s=look.clock_s)
