"""Whether an engine that has work gets on with it, judged from what was seen of it over time. Pure.

What counts as getting on: any of the engine's own numbers moves (steps, tokens, finished requests). What never counts
against it: having nothing to do, and wanting the processor, as a compiler, a long prefill or a starved engine does.
"""

from dataclasses import dataclass
from enum import Enum, auto
from math import inf

STOPPED_S = 10.0
"""A process of the engine that a signal stopped for so long is not going to be woken by chance."""

DOUBTFUL_S = 6.0
"""No number moved for so long: time to ask for a token."""

SILENT_S = 18.0
"""No number moved, no token came, and the processes slept. vLLM's steps take seconds at most, and want one."""

BUSY_S = 360.0
"""The same of an engine that wants the processor. vLLM itself gives a step 300 s, and says more when it gives up."""

_ASLEEP_CORES = 0.05  # an idle vLLM wants 0.02 of a core
_GAP_S = 15.0  # this process itself did not run for so long, so it has seen nothing


@dataclass(frozen=True, kw_only=True)
class Look:
    """What was seen at `at_s`. `numbers` move when the engine works; None: they could not be read. `work`: somebody
    waits for an answer. `wanted_s` is how long its processes ran so far or would have if a processor had been free;
    None: not looked at, infinite: one waits for a disk. `stopped` names those that a signal stopped, and
    `stopped_wanted_s` is the same time of these: it grows only while one is awake. `token`: it generated one for us
    since the last look."""

    at_s: float
    work: bool
    numbers: tuple[float, ...] | None
    wanted_s: float | None
    stopped: tuple[str, ...] = ()
    stopped_wanted_s: float | None = None
    token: bool = False


class Verdict(Enum):
    """ALIVE; DOUBTFUL: ask for a token; HUNG: it will not serve again."""

    ALIVE = auto()
    DOUBTFUL = auto()
    HUNG = auto()


class Judge:
    """Judges one engine's looks, which come in the order of time. `why` is a clause once the verdict is HUNG."""

    def __init__(self) -> None:
        self.why = ""
        self._before: Look | None = None
        self._moved: Look | None = None
        self._still: list[Look] = []
        self._stopped: Look | None = None

    def stands(self, numbers: tuple[float, ...] | None) -> bool:
        """Whether `numbers` show no progress. `wanted_s` counts in such a look alone, and is dear to find out."""
        return self._moved is not None and (numbers is None or numbers == self._moved.numbers)

    def see(self, look: Look) -> Verdict:
        """The verdict on everything seen so far."""
        before, self._before = self._before, look
        if self._moved is None or before is None or look.at_s - before.at_s > _GAP_S:
            self._stopped = None
            return self._moves(look)
        return self._stays_stopped(look) or self._stands(look, self._moved)

    def _stays_stopped(self, look: Look) -> Verdict | None:
        """One that is stopped at every look may have been awake between them."""
        if not look.stopped:
            self._stopped = None
            return None
        if self._stopped is None or self._stopped.stopped_wanted_s != look.stopped_wanted_s:
            self._stopped = look
        if look.at_s - self._stopped.at_s < STOPPED_S:
            return None
        self.why = f"a signal stopped its process {look.stopped[0]} and nothing woke it"
        return Verdict.HUNG

    def _moves(self, look: Look) -> Verdict:
        self._moved, self._still = look, []
        return Verdict.ALIVE

    def _stands(self, look: Look, moved: Look) -> Verdict:
        if not look.work or look.token or not self.stands(look.numbers):
            return self._moves(look)
        self._still = [one for one in self._still if look.at_s - one.at_s <= SILENT_S] + [look]
        still_s = look.at_s - moved.at_s
        if still_s >= (SILENT_S if self._asleep() else BUSY_S):
            does = "its processes sleep" if self._asleep() else "its processes are busy"
            self.why = f"it generated nothing while a request waited, and {does}"
            return Verdict.HUNG
        return Verdict.DOUBTFUL if still_s >= DOUBTFUL_S else Verdict.ALIVE

    def _asleep(self) -> bool:
        """Whether its processes wanted next to nothing of late, as far as that was looked at."""
        seen = [(look.at_s, look.wanted_s) for look in self._still if look.wanted_s is not None]
        if len(seen) < 2 or any(wanted_s == inf for _, wanted_s in seen):
            return False
        (from_s, before_s), (to_s, after_s) = seen[0], seen[-1]
        return after_s - before_s < _ASLEEP_CORES * (to_s - from_s)
