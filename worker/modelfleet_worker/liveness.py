"""Whether an engine that has work gets on with it, judged from what was seen of it over time. Pure.

What counts as getting on: any of the engine's own numbers moves (steps, tokens, finished requests). What never counts
against it: having nothing to do, and using the processor, as a compiler or a very long prefill does.
"""

from dataclasses import dataclass
from enum import Enum, auto

STOPPED_S = 10.0
"""A process of the engine that a signal stopped for so long is not going to be woken by chance."""

DOUBTFUL_S = 6.0
"""No number moved for so long: time to ask for a token."""

SILENT_S = 18.0
"""No number moved, no token came, and the processes slept. vLLM's steps take seconds at most, and use the processor."""

BUSY_S = 360.0
"""The same of an engine that uses the processor. vLLM itself gives a step 300 s, and says more when it gives up."""

_ASLEEP_CORES = 0.05  # an idle vLLM uses 0.02 of a core
_GAP_S = 15.0  # this process itself did not run for so long, so it has seen nothing


@dataclass(frozen=True, kw_only=True)
class Look:
    """What was seen at `at_s`. `numbers` move when the engine works; None: they could not be read. `work`: somebody
    waits for an answer. `cpu_s` is the processor time of its processes so far, `stopped` names those that a signal
    stopped. `token`: it generated one for us since the last look."""

    at_s: float
    work: bool
    numbers: tuple[float, ...] | None
    cpu_s: float
    stopped: tuple[str, ...] = ()
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
        self._stopped_since_s: float | None = None

    def see(self, look: Look) -> Verdict:
        """The verdict on everything seen so far."""
        before, self._before = self._before, look
        if self._moved is None or before is None or look.at_s - before.at_s > _GAP_S:
            self._moved, self._stopped_since_s = look, None
            return Verdict.ALIVE
        return self._stopped(look) or self._still(before, look, self._moved)

    def _stopped(self, look: Look) -> Verdict | None:
        if not look.stopped:
            self._stopped_since_s = None
            return None
        if self._stopped_since_s is None:
            self._stopped_since_s = look.at_s
        if look.at_s - self._stopped_since_s < STOPPED_S:
            return None
        self.why = f"a signal stopped its process {look.stopped[0]} and nothing woke it"
        return Verdict.HUNG

    def _still(self, before: Look, look: Look, moved: Look) -> Verdict:
        if not look.work or look.token or (look.numbers is not None and look.numbers != moved.numbers):
            self._moved = look
            return Verdict.ALIVE
        still_s = look.at_s - moved.at_s
        asleep = look.cpu_s - moved.cpu_s < _ASLEEP_CORES * still_s
        if still_s >= (SILENT_S if asleep else BUSY_S):
            does = "its processes sleep" if asleep else "its processes are busy"
            self.why = f"it generated nothing while a request waited, and {does}"
            return Verdict.HUNG
        return Verdict.DOUBTFUL if still_s >= DOUBTFUL_S else Verdict.ALIVE
