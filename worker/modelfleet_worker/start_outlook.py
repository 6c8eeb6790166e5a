"""How far a start is and how long it will still take, from measurements alone: unknown is said as unknown. Pure.

What is measured: the phases of this start so far, those of an earlier start of the same revision in this pod (the
container restarted), and within a phase what the engine says of it or what it read from disk.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import ceil


class Phase(StrEnum):
    """What a start consists of, in order: looking at what must hold; the engine's imports and configuration; weights
    from disk to device; compiling and measuring memory; KV cache, graphs and warm-up; the first token."""

    PREFLIGHT = "preflight"
    MEMBERS = "members"  # of a group alone: until all are there
    BOOT = "boot"
    LOAD = "load"
    COMPILE = "compile"
    WARM_UP = "warm_up"
    FIRST_TOKEN = "first_token"


# Words of vLLM 0.32 and 0.33. A version that says something else costs detail: its phases merge into the one before.
_BEGINS = (
    (Phase.LOAD, re.compile(r"Starting to load model|Loading \w+ checkpoint shards:")),
    (Phase.COMPILE, re.compile(r"Loading weights took|Model loading took|Dynamo bytecode transform time")),
    (Phase.WARM_UP, re.compile(r"KV cache size: [\d,]+ tokens|Capturing CUDA graphs")),
)
_SHARES = {
    Phase.LOAD: re.compile(r"Loading \w+ checkpoint shards:\s+(?P<percent>\d+)% Completed"),
    Phase.WARM_UP: re.compile(r"Capturing CUDA graphs[^:]*:\s+(?P<percent>\d+)%"),
}
_ORDER = tuple(Phase)
_LINE_CHARACTERS = 1000
_RATE_FROM = 0.05  # a smaller share says little about the rate
_OVERDUE = 2.0  # a phase that takes so many times as long as before is not told by it any more


@dataclass(frozen=True)
class Heard:
    """What one line of the engine says: a phase has begun; a share of it, from 0 to 1, is done."""

    phase: Phase
    share: float | None


def heard(line: str) -> Heard | None:
    """None for a line that says nothing of a start. Only its beginning counts."""
    line = line[:_LINE_CHARACTERS]
    for phase, pattern in reversed(_BEGINS):
        if pattern.search(line):
            said = _SHARES[phase].search(line) if phase in _SHARES else None
            return Heard(phase, int(said["percent"]) / 100 if said else None)
    return None


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What is known of a start. `share` of the whole and `left_s` are None without an earlier start to measure by;
    `phase_share` and `phase_left_s` are of the present phase, None where nothing tells."""

    share: float | None = None
    left_s: float | None = None
    phase_share: float | None = None
    phase_left_s: float | None = None

    def to_json(self) -> dict[str, float | None]:
        """For /startupz and the file: percent and seconds, null where nobody can know."""
        return {
            "percent": _percent(self.share),
            "left_s": _rounded(self.left_s),
            "phasePercent": _percent(self.phase_share),
            "phaseLeft_s": _rounded(self.phase_left_s),
        }

    @property
    def retry_after_s(self) -> int | None:
        """Whole seconds after which asking again is worth it; None where nobody can know."""
        return None if self.left_s is None else max(1, ceil(self.left_s))


UNKNOWN = Outlook()


def _percent(share: float | None) -> float | None:
    return None if share is None else int(100 * share)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


def outlook(
    phase: Phase | None, took_s: Mapping[Phase, float], phase_share: float | None, earlier_s: Mapping[Phase, float]
) -> Outlook:
    """`took_s` holds the present phase's seconds so far; `earlier_s` a whole earlier start, empty if there was none."""
    if phase is None:
        return Outlook(share=1.0, left_s=0.0)
    elapsed_s, before_s = took_s.get(phase, 0.0), earlier_s.get(phase)
    phase_left_s = _phase_left_s(elapsed_s, before_s, phase_share)
    if not earlier_s:
        return Outlook(phase_share=phase_share, phase_left_s=phase_left_s)
    total_s = sum(earlier_s.values())
    done_s = sum(seconds for one, seconds in earlier_s.items() if _ORDER.index(one) < _ORDER.index(phase))
    later_s = total_s - done_s - (before_s or 0.0)
    if before_s:
        done_s += before_s * (phase_share if phase_share is not None else min(1.0, elapsed_s / before_s))
    return Outlook(
        share=min(0.99, done_s / total_s) if total_s else None,
        left_s=None if phase_left_s is None else later_s + phase_left_s,
        phase_share=phase_share,
        phase_left_s=phase_left_s,
    )


def _phase_left_s(elapsed_s: float, before_s: float | None, share: float | None) -> float | None:
    if share is not None and share >= _RATE_FROM and elapsed_s > 0:
        return elapsed_s * (1 - share) / share
    if before_s is None or elapsed_s > max(1.0, _OVERDUE * before_s):
        return None
    return max(0.0, before_s - elapsed_s)
