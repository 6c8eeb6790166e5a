"""What one look at one worker says: its compact metrics page (docs/metrics.md) as a value. Pure.

Three states everywhere: a number above zero, zero, and None, which is no data. A page that lacks a series says nothing
about it; it does not say zero.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """Requests that ended, by how; the names are those of the label `outcome`."""

    met: int = 0
    late_ttft: int = 0
    late_tpot: int = 0
    late_both: int = 0
    refused: int = 0
    failed: int = 0
    aborted: int = 0
    invalid: int = 0
    unmeasured: int = 0

    @property
    def counted(self) -> int:
        """Those that the share is of: what clients gave up, and what was no request, is in neither part."""
        return self.met + self.late_ttft + self.late_tpot + self.late_both + self.refused + self.failed

    @property
    def finished(self) -> int:
        """Those that got their whole answer, inside the limits or not."""
        return self.met + self.late_ttft + self.late_tpot + self.late_both

    def __add__(self, other: "Outcomes") -> "Outcomes":
        if other == _NO_OUTCOMES:  # what is apart mostly is
            return self
        return Outcomes(**{name: getattr(self, name) + getattr(other, name) for name in OUTCOMES})

    def __sub__(self, other: "Outcomes") -> "Outcomes":
        if other == _NO_OUTCOMES:
            return self
        return Outcomes(**{name: getattr(self, name) - getattr(other, name) for name in OUTCOMES})


_NO_OUTCOMES = Outcomes()
OUTCOMES = tuple(each.name for each in fields(Outcomes))


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts by bucket, not cumulated; the last bucket is above the last edge. `sum` is that of all values."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float

    @property
    def count(self) -> int:
        """How many values there are."""
        return sum(self.counts)

    def __add__(self, other: "Histogram") -> "Histogram":
        """Of the same edges; ValueError else."""
        self._same(other)
        return Histogram(
            self.edges, tuple(a + b for a, b in zip(self.counts, other.counts, strict=True)), self.sum + other.sum
        )

    def __sub__(self, other: "Histogram") -> "Histogram":
        """Of the same edges; ValueError else."""
        self._same(other)
        return Histogram(
            self.edges, tuple(a - b for a, b in zip(self.counts, other.counts, strict=True)), self.sum - other.sum
        )

    def _same(self, other: "Histogram") -> None:
        if self.edges != other.edges:
            raise ValueError(f"histograms of different edges: {self.edges} and {other.edges}")

    def share_above(self, edge: float) -> float | None:
        """The share of values above `edge`, exact where it is an edge; None without values."""
        count = self.count
        if not count:
            return None
        below = sum(n for upper, n in zip(self.edges, self.counts, strict=False) if upper <= edge)
        return 1.0 - below / count

    def quantile(self, part: float) -> float | None:
        """The value that `part` of all are at or below, evenly spread within its bucket; None without values.

        Above the last edge nothing is known but that it is above: the last edge is answered.
        """
        count = self.count
        if not count or not self.edges:
            return None
        rank, below, low = part * count, 0, 0.0
        for edge, here in zip(self.edges, self.counts, strict=False):
            if here and below + here >= rank:
                return low + (edge - low) * max(0.0, rank - below) / here
            below, low = below + here, edge
        return self.edges[-1]


def histogram(edges: tuple[float, ...], cumulated: Sequence[float], total: float) -> Histogram:
    """From the counts at or below each of `edges` and below infinity, and the sum. ValueError: counts that fall."""
    counts = [int(cumulated[0]), *(int(after - before) for before, after in pairwise(cumulated))]
    if min(counts) < 0:
        raise ValueError("the counts of a histogram fall from one bucket to the next")
    return Histogram(edges, tuple(counts), total)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectiveCounts:
    """What one promise says of one objective. Counts since the worker's start; `in_flight` is of now.

    `longer` and `first_caller` are apart: they are not in `ended`.
    """

    arrivals: int = 0
    in_flight: int = 0
    ended: Outcomes = Outcomes()
    longer: Outcomes = Outcomes()
    first_caller: Outcomes = Outcomes()
    ttft_s: Histogram | None = None
    tpot_s: Histogram | None = None
    input_tokens: Histogram | None = None
    output_tokens: Histogram | None = None


STARTING = "starting"
"""The state of a worker whose engine does not answer yet."""

HISTOGRAMS = ("ttft_s", "tpot_s", "input_tokens", "output_tokens")
"""Those of an objective, by field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """How far the worker's start is. `progress` and `left_s` are None where nothing tells them; `phases_s` says how
    long each phase took, or has taken so far; `compiled` what came of compiled code, empty where none is kept."""

    progress: float | None = None
    left_s: float | None = None
    phases_s: Mapping[str, float] = field(default_factory=dict)
    compiled: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One worker at one moment. `at_s` is the monotonic clock of the process that looked.

    `state` is starting, serving, draining or gone; `promise` the digest that arrivals are judged by now, None for a
    worker without one. `promises` holds counts by digest, then by objective: the present one, and one that was before.
    """

    pod_uid: str
    at_s: float
    revision: str = ""
    state: str = ""
    promise: str | None = None
    promises: Mapping[str, Mapping[str, ObjectiveCounts]] = field(default_factory=dict)
    in_flight: int | None = None
    waiting: int | None = None
    oldest_waiting_s: float | None = None
    running: int | None = None
    kv_total_tokens: int | None = None
    kv_used_tokens: int | None = None
    start: Start = Start()

    def of(self, promise: str, objective: str) -> ObjectiveCounts | None:
        """The counts of an objective under a promise; None where the page has none."""
        objectives = self.promises.get(promise)
        return objectives.get(objective) if objectives is not None else None
