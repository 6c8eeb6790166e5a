"""The replicas of a deployment as a decision about their number sees them. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, kw_only=True)
class Seats:
    """The replicas of a deployment, by the uids of their leaders. `serving` get requests; `standing` exist and are not
    on their way out; `moving`: some start, end or are replaced; `leaving` end. `starting` do not serve yet and may;
    `made_at` says when those were made that may be given up: none while one ends or another revision is there.
    `starts_s` says how long those that serve took to. `present` are all pods of leaders that exist."""

    serving: tuple[str, ...] = ()
    standing: int = 0
    pending_s: tuple[float, ...] = ()
    moving: bool = False
    leaving: int = 0
    starting: frozenset[str] = frozenset()
    made_at: tuple[datetime, ...] = ()
    starts_s: Mapping[str, float] = field(default_factory=dict)
    present: frozenset[str] = frozenset()

    @property
    def served(self) -> int:
        """Replicas that serve, or did before they began again."""
        return len(self.serving) + len(self.pending_s) - len(self.starting)
