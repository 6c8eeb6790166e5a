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
        """With the work that arrived up to `now_s`, since the last call."""
        grown = replace(self, open_work=self.open_work + work, slot_work=self.slot_work + work)
        if now_s - grown.open_since_s >= BIN_S:
            rate = grown.open_work / (now_s - grown.open_since_s)
            grown = replace(grown, bins=(*grown.bins, rate)[-BINS:], open_work=0.0, open_since_s=now_s)
        if now_s - grown.slot_since_s >= SLOT_S:
            rate = grown.slot_work / (now_s - grown.slot_since_s)
            grown = replace(grown, slots=(*grown.slots, rate)[-SLOTS:], slot_work=0.0, slot_since_s=now_s)
        return grown

    def mean(self, seconds: float) -> float:
        """Work a second over the last finished bins that cover `seconds`."""
        count = max(1, round(seconds / BIN_S))
        recent = self.bins[-count:]
        return sum(recent) / len(recent) if recent else 0.0
