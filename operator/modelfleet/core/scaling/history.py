"""The load of one deployment over time, in bins, as forecasts need it. Pure.

Load is measured in work: one unit is a request of the declared mean lengths, so that longer requests count for more.
"""

from dataclasses import dataclass, replace

BIN_S = 15.0
"""A bin: long enough that its Poisson noise is small, short against any cold start."""
BINS = 960
"""Four hours: what short seasons and trends are looked for in."""
SLOT_S = 300.0
SLOTS = 7 * 288
"""A week of five minutes: daily and weekly seasons."""


@dataclass(frozen=True, kw_only=True)
class History:
    """`bins` are work a second in each finished bin, the oldest first; `slots` the same in slots. What is open is
    counted in `open_work` since `open_since_s`, and `slot_work` since `slot_since_s`."""

    bins: tuple[float, ...] = ()
    slots: tuple[float, ...] = ()
    open_work: float = 0.0
    open_since_s: float = 0.0
    slot_work: float = 0.0
    slot_since_s: float = 0.0

    def add(self, work: float, now_s: float) -> "History":
        """With the work that arrived up to `now_s`, since the last call. A time longer than a bin or a slot is several,
        so that a season stays where it is after one in which nobody looked, or nobody came."""
        grown = replace(self, open_work=self.open_work + work, slot_work=self.slot_work + work)
        count = self.bins_until(now_s)
        if count:
            rate = grown.open_work / (now_s - grown.open_since_s)
            since_s = grown.open_since_s + count * BIN_S
            bins = (*grown.bins, *(cut_number(rate),) * min(count, BINS))[-BINS:]
            grown = replace(grown, bins=bins, open_work=rate * (now_s - since_s), open_since_s=since_s)
        count = _whole(now_s - grown.slot_since_s, SLOT_S)
        if count:
            rate = grown.slot_work / (now_s - grown.slot_since_s)
            since_s = grown.slot_since_s + count * SLOT_S
            slots = (*grown.slots, *(cut_number(rate),) * min(count, SLOTS))[-SLOTS:]
            grown = replace(grown, slots=slots, slot_work=rate * (now_s - since_s), slot_since_s=since_s)
        return grown

    def bins_until(self, now_s: float) -> int:
        """How many bins are finished by then."""
        return _whole(now_s - self.open_since_s, BIN_S)

    def mean(self, seconds: float) -> float:
        """Work a second over the last finished bins that cover `seconds`."""
        count = max(1, round(seconds / BIN_S))
        recent = self.bins[-count:]
        return sum(recent) / len(recent) if recent else 0.0


def cut_number(value: float) -> float:
    """A number to the digits that matter of it, as it is written."""
    return round(value, 3) if abs(value) >= 1 else float(f"{value:.4g}")


def _whole(seconds: float, step_s: float) -> int:
    return max(0, int(seconds // step_s))
