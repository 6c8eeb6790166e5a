"""What a worker is doing, for its probes and its metrics page. Pure but for the clock, which is an argument."""

from collections.abc import Mapping
from enum import StrEnum

from modelfleet_worker.start_outlook import UNKNOWN, Outlook, Phase


class State(StrEnum):
    """starting → serving → draining → gone."""

    STARTING = "starting"
    SERVING = "serving"
    DRAINING = "draining"
    GONE = "gone"


_ORDER = tuple(Phase)


class Progress:
    """The state, how long each phase of the start took or has taken so far, and what is left of it."""

    def __init__(self, now_s: float) -> None:
        self.state = State.STARTING
        self.phase: Phase | None = Phase.PREFLIGHT
        self.outlook: Outlook = UNKNOWN
        self._since_s = now_s
        self._took_s: dict[Phase, float] = {}

    def enter(self, phase: Phase | None, now_s: float) -> None:
        """Ends the present phase; None ends the start. A phase that is behind, or after the start's end, is ignored."""
        if self.phase is None or (phase is not None and _ORDER.index(phase) <= _ORDER.index(self.phase)):
            return
        self._took_s[self.phase] = max(0.0, now_s - self._since_s)
        self.phase, self._since_s = phase, now_s

    def start_again(self, now_s: float) -> None:
        """An engine ended in its start, and another is started: what its start takes counts for this one alone."""
        kept = _ORDER[: _ORDER.index(Phase.BOOT)]
        self._took_s = {phase: seconds for phase, seconds in self._took_s.items() if phase in kept}
        self.state, self.phase, self._since_s = State.STARTING, Phase.BOOT, now_s

    def phases_s(self, now_s: float) -> Mapping[Phase, float]:
        """Seconds of each phase that began."""
        running = {self.phase: max(0.0, now_s - self._since_s)} if self.phase is not None else {}
        return {**self._took_s, **running}
