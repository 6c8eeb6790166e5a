"""What the load is going to be at its highest within a horizon: simple forecasts, and the one that has been right.

Each forecast is scored by what came: being `SHORT` times as bad to be too low as to be too high. Scores decay, so a
season that ends is left. Pure.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from operator import mul
from statistics import median_low

from modelfleet.core.scaling.history import BIN_S, SLOT_S, History
from modelfleet.core.scaling.phase import phase


class Way(StrEnum):
    """The forecasts."""

    STEADY = "steady"
    """As in the last minute."""
    TREND = "trend"
    """Growing on as in the last minutes, less and less."""
    SEASON = "season"
    """As one period ago, where the last hours repeat themselves."""
    DAY = "day"
    """As yesterday from this time on, at today's level."""
    WEEK = "week"
    """As a week ago from this time on, at today's level."""


SHORT = 4.0
SEARCH_EVERY = 20
"""Bins between searches for a period."""
_DECAY = 0.98  # of a score a bin: half of it is younger than nine minutes
_LEAST_PERIOD, _MOST_PERIOD = 16, 480  # bins: 4 minutes to 2 hours
_ALIKE = 0.6
_LEVEL_S = 60.0
_DAMPED = 0.9  # of a growth goes on in the next bin: three minutes later less than a third of it


@dataclass(frozen=True, kw_only=True)
class Due:
    """A forecast that waits for what comes: made when `made_at` bins had passed."""

    made_at: int
    values: tuple[tuple[Way, float], ...]


@dataclass(frozen=True, kw_only=True)
class Forecaster:
    """Scores, and forecasts that wait for theirs. `count` are the bins seen; `period` is in bins, 0: there is none."""

    count: int = 0
    period: int = 0
    scores: tuple[tuple[Way, float], ...] = ()
    due: tuple[Due, ...] = ()

    @classmethod
    def of(cls, key: str) -> "Forecaster":
        """At the beginning of a model: those of a fleet look for their periods at different times."""
        return cls(count=phase(key, SEARCH_EVERY))

    def rested(self, bins: int) -> "Forecaster":
        """After so many bins in which nobody was there: what was foretold of them is neither right nor wrong."""
        return replace(self, count=self.count + bins, due=())


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """The highest load within the horizon, work a second, and which way it was found."""

    peak: float
    way: Way


def forecast(state: Forecaster, history: History, new_bins: int, horizon_s: float) -> tuple[Forecast, Forecaster]:
    """The forecast now, and the state with the scores of those that have come due; `new_bins` were finished since."""
    ahead = max(1, round(horizon_s / BIN_S))
    if new_bins:
        decayed = tuple((way, score * _DECAY**new_bins) for way, score in state.scores)
        state = _scored(replace(state, count=state.count + new_bins, scores=decayed), history, ahead)
    values = dict(_values(state, history, ahead))
    if new_bins:
        state = replace(state, due=(*state.due, Due(made_at=state.count, values=tuple(values.items()))))
    scores = dict(state.scores)
    if scores:
        way = min(values, key=lambda each: scores.get(each, 0.0 if each is Way.STEADY else 1e-9))
    else:
        way = max(values, key=lambda each: values[each])  # none has been right yet: the safe one
    return Forecast(peak=values[way], way=way), state


def _scored(state: Forecaster, history: History, ahead: int) -> Forecaster:
    scores, waiting = dict(state.scores), []
    level = max(history.mean(3600.0), 1e-9)
    for due in state.due:
        if state.count - due.made_at < ahead:
            waiting.append(due)
            continue
        came = _peak(history.bins[max(0, len(history.bins) - (state.count - due.made_at)) :][:ahead])
        for way, value in due.values:
            miss = (came - value) / level
            scores[way] = scores.get(way, 0.0) + (SHORT * miss if miss > 0 else -miss)
    period = state.period if state.count % SEARCH_EVERY else _period(history.bins)
    return replace(state, scores=tuple(scores.items()), due=tuple(waiting), period=period)


def _values(state: Forecaster, history: History, ahead: int) -> list[tuple[Way, float]]:
    bins = history.bins
    level = history.mean(_LEVEL_S)
    found = [(Way.STEADY, level)]
    if len(bins) >= 16:
        growth = max(0.0, _lasting(bins[-16:], 4))
        found.append((Way.TREND, min(2 * level, level + growth * _damped(ahead + 2))))
    if state.period and len(bins) > state.period:
        found.append((Way.SEASON, _again(bins, len(bins) - state.period, ahead, level)))
    for way, slots in ((Way.DAY, 288), (Way.WEEK, 2016)):
        if len(history.slots) >= slots:
            slots_ahead = max(1, round(ahead * BIN_S / SLOT_S)) + 1
            found.append((way, _again(history.slots, len(history.slots) - slots, slots_ahead, level)))
    return found


def _damped(bins: int) -> float:
    """The growth of so many bins to come, in bins of the present one: of each, a part goes on in the next (the damped
    trend of Gardner and McKenzie 1985). Without it a load that comes to its height is taken to go on far beyond."""
    return _DAMPED * (1 - _DAMPED**bins) / (1 - _DAMPED)


def _lasting(bins: tuple[float, ...], lag: int) -> float:
    """Growth a bin: the median of the differences between bins that are `lag` apart.

    Growth that goes on is in most of the differences. A jump is in `lag` of them, one more where it is inside a bin:
    fewer than half, so that it is not taken for the beginning of a slope (Theil 1950, Sen 1968, with a fixed lag).
    """
    return median_low(after - before for before, after in zip(bins, bins[lag:], strict=False)) / lag


def _again(series: tuple[float, ...], at: int, ahead: int, level: float) -> float:
    """The peak of what followed `at`, moved to today's level."""
    before = series[max(0, at - 4) : at]
    then = sum(before) / len(before) if before else 0.0
    follows = _peak(series[at : at + ahead])
    return max(0.0, follows + (level - then)) if then else follows


def _peak(bins: tuple[float, ...]) -> float:
    """The highest mean of two neighbouring bins: one bin alone is noise."""
    if len(bins) < 2:
        return bins[0] if bins else 0.0
    return max((a + b) / 2 for a, b in pairwise(bins))


def _period(bins: tuple[float, ...]) -> int:
    """The period with the highest autocorrelation, where it is high enough; in bins. It is looked for minute by minute,
    which takes a fifth of the time, and must hold by half minutes too: few minutes are alike by chance."""
    minutes = _moved(bins, 4)
    lags = range(_LEAST_PERIOD // 4, min(_MOST_PERIOD // 4, len(minutes) // 2))
    best, found = _ALIKE, 0
    last = 1.0
    rising = False
    for lag, alike in zip(lags, _alike(minutes, lags), strict=True):
        rising = rising or alike > last
        if rising and alike > best * 1.02:
            best, found = alike, lag
        last = alike
    if not found:
        return 0
    near = range(2 * found - 1, 2 * found + 2)
    alike, found = max(zip(_alike(_moved(bins, 2), near), near, strict=True))
    return 2 * found if alike > _ALIKE else 0


def _moved(bins: tuple[float, ...], size: int) -> list[float]:
    """Means of so many bins each, less the mean of all; the oldest bins that make no whole one are left out."""
    recent = bins[-3 * _MOST_PERIOD :]
    means = [sum(recent[at : at + size]) / size for at in range(len(recent) % size, len(recent), size)]
    mean = sum(means) / max(1, len(means))
    return [value - mean for value in means]


def _alike(moved: list[float], lags: range) -> list[float]:
    """The autocorrelation at each lag; 0 where nothing changes."""
    power, count = sum(map(mul, moved, moved)), len(moved)
    if power <= 0:
        return [0.0] * len(lags)
    return [sum(map(mul, moved, moved[lag:])) / power * count / (count - lag) for lag in lags]
