"""From what engine and client noted to bounds. Pure.

A machine that others use has noise at all time scales, about as much at each: the mean of a second is hardly steadier
than that of 50 ms. So the layers are turned as often as steps allow, four windows (in, out, out, in) are one block, and
the difference within a block is what counts. No drift that is straight over a block counts for one side.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, sqrt
from typing import Any

import numpy as np

PERIOD_S = 0.047
"""A window's length: some steps, and no part of a second, so that what happens some times a second falls in all four
windows of a block by turns."""
_RESAMPLES = 5_000
_SEED = 1
CONFIDENCE = 0.95
_GUARD_STEPS = 2.0
"""What was on its way through the engine when the layers turned came from both sides."""
_MOSTLY = 0.5
_FEWEST = 20  # blocks are grouped to no fewer: then a bound means little


@dataclass(frozen=True)
class Bound:
    """Of values that are alike but for noise: their median and mean, and what each is at most, one-sided at 95 %.

    `median_upper` is an order statistic (the sign test turned round), which supposes nothing of how values are spread;
    `mean_upper` is by bootstrap, and outliers widen it, as they should. `count` values are means of `grouped`
    neighbours each, because neighbours were not independent; `spread` is the standard deviation of single ones.
    """

    count: int
    grouped: int
    spread: float
    median: float
    median_upper: float
    mean: float
    mean_upper: float


@dataclass(frozen=True)
class Noted:
    """A run. `tokens_s`: of each stream when its tokens came, equal for those that the client read at once. `edges`: of
    each process rows of number, time and CPU seconds so far. All times by one monotonic clock."""

    start_s: float
    period_s: float
    tokens_s: Sequence[Sequence[float]]
    edges: Mapping[str, Sequence[Sequence[float]]]


@dataclass(frozen=True)
class Windows:
    """One value a window. `seconds` are without the guard; `gap_s` is the sum of `gaps` gaps between two tokens of a
    stream; `cores` is CPU seconds a second, of each process. Where `late` the layers turned too late, where `unread`
    the client had no time to read."""

    step_s: float
    seconds: Any
    tokens: Any
    gaps: Any
    gap_s: Any
    cores: Mapping[str, Any]
    late: Any
    unread: Any


def windows(noted: Noted) -> Windows:
    """Cuts a run into its windows. One begins when the last process has turned, and two steps later for the guard; it
    ends by the clock, since no process turns before. Raises ValueError without tokens."""
    at_s, cores = _turned(noted)
    steps = [np.diff(np.asarray(times)) for times in noted.tokens_s]
    moved = np.concatenate([gaps[gaps > 0] for gaps in steps] or [np.empty(0)])
    if not len(moved):
        raise ValueError("no stream has two tokens")
    step_s = float(np.median(moved))
    count = len(at_s) - 1
    begin_s = at_s[:-1] + _GUARD_STEPS * step_s
    seconds = noted.start_s + noted.period_s * np.arange(1, count + 1) - begin_s
    tokens, heaped, gaps, gap_s = (np.zeros(count) for _ in range(4))
    for times in noted.tokens_s:
        when = np.asarray(times)
        index = np.floor((when - noted.start_s) / noted.period_s).astype(int)
        inside = (index >= 0) & (index < count)
        inside[inside] = when[inside] >= begin_s[index[inside]]
        tokens += np.bincount(index[inside], minlength=count)
        whole = inside[1:] & inside[:-1] & (index[1:] == index[:-1])
        of, gap = index[1:][whole], np.diff(when)[whole]
        gaps += np.bincount(of, minlength=count)
        gap_s += np.bincount(of, weights=gap, minlength=count)
        heaped += np.bincount(of[gap == 0], minlength=count)
    missed = np.isnan(sum(cores.values()))
    late = missed | ~(seconds >= noted.period_s * _MOSTLY)
    return Windows(step_s, seconds, tokens, gaps, gap_s, cores, late, heaped > _MOSTLY * tokens)


def _turned(noted: Noted) -> tuple[Any, dict[str, Any]]:
    """When each edge was past in all processes, not a number if one missed it; and the CPU each took, in cores."""
    count = int(min(rows[-1][0] for rows in noted.edges.values())) + 1
    latest, cores = np.full(count, -np.inf), {}
    for name, rows in noted.edges.items():
        number, at, cpu = np.asarray(rows).T
        kept = number < count
        at_s, cpu_s = np.full(count, np.nan), np.full(count, np.nan)
        at_s[number[kept].astype(int)], cpu_s[number[kept].astype(int)] = at[kept], cpu[kept]
        latest = np.maximum(latest, at_s)
        cores[name] = np.diff(cpu_s) / np.diff(at_s)
    return latest, cores


def costs(seen: Windows) -> tuple[dict[str, list[float]], list[float]]:
    """Logarithms of ratios, above 0 where our layers make it worse, and CPU microseconds that they add to a token: one
    value for each block whose windows are all good."""
    good = blocks(seen)
    found = {}
    for side, of in (("in", (0, 3)), ("out", (1, 2))):
        rate = _sum(seen.tokens, good, of) / _sum(seen.seconds, good, of)
        cpu = sum(_sum(cores, good, of) for cores in seen.cores.values()) / 2
        found[side] = (rate, _sum(seen.gap_s, good, of) / _sum(seen.gaps, good, of), cpu / rate)
    (rate, tpot, cpu), (rate_out, tpot_out, cpu_out) = found["in"], found["out"]
    logs = {
        "throughput lost": np.log(rate_out / rate),
        "tpot": np.log(tpot / tpot_out),
        "cpu per token": np.log(cpu / cpu_out),
    }
    return {name: list(map(float, values)) for name, values in logs.items()}, list(map(float, (cpu - cpu_out) * 1e6))


def blocks(seen: Windows) -> Any:
    """Indices of the first windows of good blocks: all four were turned in time and read, and both sides have gaps."""
    whole = len(seen.tokens) // 4
    bad = (seen.late | seen.unread)[: 4 * whole].reshape(whole, 4)
    gaps = seen.gaps[: 4 * whole].reshape(whole, 4)
    good = ~bad.any(axis=1) & (gaps[:, 0] + gaps[:, 3] > 0) & (gaps[:, 1] + gaps[:, 2] > 0)
    return 4 * np.flatnonzero(good)


def side(seen: Windows, *, ours: bool) -> dict[str, float]:
    """Sums over all good blocks' windows of one side: CPU in microseconds a token, by process."""
    good, of = blocks(seen), (0, 3) if ours else (1, 2)
    rate = float(_sum(seen.tokens, good, of).sum() / _sum(seen.seconds, good, of).sum())
    tpot_s = float(_sum(seen.gap_s, good, of).sum() / _sum(seen.gaps, good, of).sum())
    cores = {f"{name}_us": 1e6 * float(_sum(one, good, of).mean()) / 2 / rate for name, one in seen.cores.items()}
    return {"tokens_per_s": rate, "tpot_ms": 1000 * tpot_s, **cores}


def _sum(values: Any, good: Any, of: tuple[int, int]) -> Any:
    return values[good + of[0]] + values[good + of[1]]


def bound(values: Sequence[float]) -> Bound:
    """Of values in the order of time. Raises ValueError for fewer than five, whose median has no bound at 95 %."""
    numbers, size = np.array(values), 1
    spread = float(numbers.std(ddof=1)) if len(numbers) > 1 else 0.0
    while len(numbers) >= 2 * _FEWEST and _alike(numbers):
        size *= 2
        numbers = numbers[: len(numbers) // 2 * 2].reshape(-1, 2).mean(axis=1)
    rank = upper_rank(len(numbers))
    generator = np.random.default_rng(_SEED)
    means = [numbers[generator.integers(len(numbers), size=len(numbers))].mean() for _ in range(_RESAMPLES)]
    return Bound(
        count=len(numbers),
        grouped=size,
        spread=spread,
        median=float(np.median(numbers)),
        median_upper=float(np.sort(numbers)[rank]),
        mean=float(numbers.mean()),
        mean_upper=float(np.quantile(means, CONFIDENCE)),
    )


def _alike(numbers: Any) -> bool:
    """Whether neighbours are correlated more than chance makes it likely (one in forty)."""
    apart = numbers - numbers.mean()
    variance = float((apart**2).sum())
    return variance > 0 and float((apart[1:] * apart[:-1]).sum()) / variance > 1.96 / sqrt(len(numbers))


def upper_rank(count: int) -> int:
    """The index of the smallest of `count` ordered values that is above the median with 95 % certainty: each value is
    above it or not with the chances of a coin. Raises ValueError where there is none."""
    below, chances = 0, 1
    for index in range(count):
        below += chances
        if 100 * below >= round(100 * CONFIDENCE) << count:
            return index
        chances = chances * (count - index) // (index + 1)
    raise ValueError(f"{count} values bound no median with {CONFIDENCE:.0%} certainty; five do")


def percent(ratio_log: float) -> float:
    """A logarithm of a ratio in percent above 1."""
    return 100 * (exp(ratio_log) - 1)
