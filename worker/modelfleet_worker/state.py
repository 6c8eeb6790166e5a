"""What a worker is doing, for its probes and its metrics page. Pure but for the clock, which is an argument."""

from collections.abc import Mapping
from enum import StrEnum


class State(StrEnum):
    """starting → serving → draining → gone."""

    STARTING = "starting"
    SERVING = "serving"
    DRAINING = "draining"
    GONE = "gone"


class Phase(StrEnum):
    """What a start consists of: until the engine's process runs, until it is healthy, until it generated a token.

    A member of a group waits for the others before it starts its engine.
    """

    PREFLIGHT = "preflight"
    MEMBERS = "members"
    ENGINE = "engine"
    FIRST_TOKEN = "first_token"


class Progress:
    """The state, and how long each phase of the start took or has taken so far."""

    def __init__(self, now_s: float) -> None:
        self.state = State.STARTING
        self.phase: Phase | None = Phase.PREFLIGHT
        self._since_s = now_s
        self._took_s: dict[Phase, float] = {}

    def enter(self, phase: Phase | None, now_s: float) -> None:
        """Ends the present phase; None ends the start."""
        if self.phase is not None:
            self._took_s[self.phase] = now_s - self._since_s
        self.phase, self._since_s = phase, now_s

    def phases_s(self, now_s: float) -> Mapping[Phase, float]:
        """Seconds of each phase that began."""
        running = {self.phase: now_s - self._since_s} if self.phase is not None else {}
        return {**self._took_s, **running}
