"""Requests from trace files: arrivals with lengths, one row each, or arrival rates in windows with length mixtures.

What a file is follows from its columns. Rows are sorted by arrival and counted from the first. Reads files.
"""

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from math import exp, isfinite, log
from pathlib import Path
from random import Random
from typing import Any

from modelfleet.sim.requests import Request

MOST_REQUESTS = 200_000
"""Of a longer trace so many are kept, spread over its whole time: all policies on one trace take minutes, not hours."""

MOST_HOURS = 24 * 60
"""The longest that is played: days of time steps are played even where nobody asks."""

_ARRIVAL = ("TIMESTAMP", "Timestamp", "timestamp", "arrival_time", "arrival_s", "arrived_at")
_INPUT = ("ContextTokens", "Request tokens", "input_toks", "input_tokens", "input_length", "num_prefill_tokens")
_OUTPUT = ("GeneratedTokens", "Response tokens", "output_toks", "output_tokens", "output_length", "num_decode_tokens")
_RATES = {"model", "window_start_s", "rate_rps"}
_LENGTHS = {"model", "window_start_s", "field", "p50", "p90", "p99"}
_MOST_TOKENS = 10_000_000
_MILLISECONDS = {"timestamp"}  # Mooncake's traces count in them


class TraceError(ValueError):
    """A trace that cannot be read; the message is a sentence for the user."""


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Requests in order of arrival, how long they arrive for, and what was done to the file's, for the reader."""

    requests: tuple[Request, ...]
    duration_s: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Of a file with several series: which, how many hours from which hour on, and the file of length mixtures.
    `scale` multiplies the rate; None: as it is, or what `most_requests` allows."""

    series: str | None = None
    from_hour: float = 0.0
    hours: float | None = None
    lengths: Path | None = None
    scale: float | None = None
    most_requests: int = MOST_REQUESTS


def read_trace(path: Path, choice: Choice, seed: int) -> Trace:
    """The trace in a file. Raises TraceError."""
    rows = _read(path, "requests")
    if set(rows[0]) >= _RATES:
        return _from_rates(path, rows, choice, seed)
    if choice.series is not None:
        raise TraceError(f"{path}: it has one series only, so none can be chosen; leave --series out")
    if choice.lengths is not None:
        raise TraceError(f"{path}: its requests have lengths of their own; leave --lengths-file out")
    return _from_requests(path, rows, choice, seed)


def _read(path: Path, what: str) -> list[Mapping[str, Any]]:
    """The rows of a file of `what`, at least one."""
    try:
        rows = list(_rows(path))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise TraceError(f"{path}: {reason}; give a CSV or JSON-lines file of {what}") from error
    except csv.Error as error:
        raise TraceError(f"{path}: {error}; give a CSV with a header, or JSON lines") from error
    if not rows:
        raise TraceError(f"{path}: it has no rows; give a CSV with a header, or JSON lines")
    return rows


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    with path.open(newline="") as file:
        first = file.read(1)
        file.seek(0)
        if first != "{":
            yield from csv.DictReader(file)
            return
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise TraceError(f"{path}, line {number}: {error}; each line is one JSON object") from error
            if not isinstance(row, dict):
                raise TraceError(f"{path}, line {number}: it is not a JSON object")
            yield row


def _from_requests(path: Path, rows: Sequence[Mapping[str, Any]], choice: Choice, seed: int) -> Trace:
    names = [next((name for name in known if name in rows[0]), None) for known in (_ARRIVAL, _INPUT, _OUTPUT)]
    if None in names:
        seen = ", ".join(map(str, rows[0]))
        raise TraceError(
            f"{path}: no columns of arrivals and tokens among {seen[:200]}; name them, for example, TIMESTAMP,"
            " ContextTokens, GeneratedTokens"
        )
    arrival, prompt, answer = (str(name) for name in names)
    found = []
    for number, row in enumerate(rows, start=2):
        try:
            found.append((_seconds(row.get(arrival), arrival), _tokens(row.get(prompt)), _tokens(row.get(answer))))
        except ValueError as error:
            raise TraceError(f"{path}, row {number}: {error}; a row has an arrival and two whole numbers") from error
    found.sort()
    start = found[0][0] + choice.from_hour * 3600
    stop = start + choice.hours * 3600 if choice.hours is not None else float("inf")
    kept = [Request(at - start, inp, out) for at, inp, out in found if start <= at < stop]
    if len(kept) < 2 or kept[-1].arrival_s <= 0:
        raise TraceError(f"{path}: fewer than two requests from hour {choice.from_hour:g} on")
    _check_span(path, kept[-1].arrival_s)
    scale = choice.scale if choice.scale is not None else min(1.0, choice.most_requests / len(kept))
    scaled = _scaled(kept, scale, Random(seed))
    if len(scaled) < 2:
        raise TraceError(f"{path}: a scale of {scale:g} leaves fewer than two requests; give a larger one")
    unit = (f"{arrival} is read as milliseconds",) if arrival in _MILLISECONDS else ()
    return Trace(requests=tuple(scaled), duration_s=kept[-1].arrival_s, notes=(*unit, *_rate_note(scale, choice)))


def _check_span(path: Path, span_s: float) -> None:
    if span_s > MOST_HOURS * 3600:
        raise TraceError(
            f"{path}: it lasts {span_s / 3600:.4g} hours, and {MOST_HOURS} can be played; give --hours, or its times in"
            " the unit that the column is read as"
        )


def _rate_note(scale: float, choice: Choice) -> tuple[str, ...]:
    if scale == 1.0:
        return ()
    why = (
        ""
        if choice.scale is not None
        else f", so that {choice.most_requests} requests are left; --scale says otherwise"
    )
    return (f"the rate times {scale:.3g}{why}",)


def _scaled(requests: Sequence[Request], scale: float, random: Random) -> list[Request]:
    """As many copies of each request as `scale` says, up to a second apart, the fraction by chance."""
    if scale == 1.0:
        return list(requests)
    found = []
    last_s = requests[-1].arrival_s
    for one in requests:
        whole = int(scale) + (random.random() < scale - int(scale))
        for copy in range(whole):
            at_s = one.arrival_s if not copy else min(last_s, max(0.0, one.arrival_s + random.uniform(-1.0, 1.0)))
            found.append(Request(at_s, one.input_tokens, one.output_tokens))
    return sorted(found, key=lambda one: one.arrival_s)


def _seconds(value: Any, column: str) -> float:
    """A number, or a time of day; without a zone it is UTC."""
    try:
        seconds = float(value) / (1000 if column in _MILLISECONDS else 1)
    except (TypeError, ValueError):
        try:
            when = datetime.fromisoformat(str(value))
        except ValueError:
            raise ValueError(f"{column} is {_quoted(value)}, which is no time") from None
        seconds = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    if not isfinite(seconds) or abs(seconds) > 1e12:
        raise ValueError(f"{column} is {_quoted(value)}, which is no time")
    return seconds


def _tokens(value: Any) -> int:
    try:
        tokens = float(value)
    except (TypeError, ValueError):
        tokens = float("nan")
    if not 0 <= tokens <= _MOST_TOKENS:
        raise ValueError(f"{_quoted(value)} is no number of tokens from 0 to {_MOST_TOKENS}")
    return max(int(tokens), 1)


def _told(error: Exception) -> str:
    return f"a row lacks {error}" if isinstance(error, KeyError) else str(error)


def _quoted(value: Any) -> str:
    return "nothing" if value is None else repr(str(value)[:40])


def _from_rates(path: Path, rows: Sequence[Mapping[str, Any]], choice: Choice, seed: int) -> Trace:
    series = list(dict.fromkeys(str(row.get("model")) for row in rows))
    name = choice.series or series[0]
    if name not in series:
        raise TraceError(f"{path}: there is no series {name}; it has {', '.join(series[:20])}")
    try:
        windows = sorted(_window(row) for row in rows if row.get("model") == name)
    except (KeyError, TypeError, ValueError) as error:
        raise TraceError(f"{path}: {_told(error)}; a window has a start and a rate, both numbers from 0 up") from error
    start = windows[0][0] + choice.from_hour * 3600
    stop = start + (choice.hours if choice.hours is not None else 24.0) * 3600
    kept = [window for window in windows if start <= window[0] < stop]
    if len(kept) < 2:
        raise TraceError(f"{path}: {name} has fewer than two windows from hour {choice.from_hour:g} on")
    width_s = min(b[0] - a[0] for a, b in pairwise(kept))
    if width_s <= 0:
        raise TraceError(f"{path}: {name} has two windows at {kept[0][0]:g} s or later that start together")
    total = sum(rate for _, rate, _ in kept) * width_s
    if total * (1.0 if choice.scale is None else choice.scale) < 2:
        raise TraceError(f"{path}: {name} has fewer than two requests from hour {choice.from_hour:g} on")
    scale = choice.scale if choice.scale is not None else min(1.0, choice.most_requests / total)
    random = Random(seed)
    sample = _lengths(path, name, choice, random)
    requests = tuple(_arrivals(kept, width_s, scale, sample, random))
    if len(requests) < 2:
        raise TraceError(f"{path}: a scale of {scale:g} leaves fewer than two requests; give a larger one")
    gaps = sum(rate <= 0 for _, rate, _ in kept)
    notes = (
        f"series {name}", f"{len(kept)} windows from hour {choice.from_hour:g} on", *_rate_note(scale, choice),
        *([f"no requests in {gaps} windows without a rate"] if gaps else []),
    )  # fmt: skip
    return Trace(requests=requests, duration_s=kept[-1][0] + width_s - kept[0][0], notes=notes)


def _window(row: Mapping[str, Any]) -> tuple[float, float, float]:
    start_s, rate, spread = (
        float(row["window_start_s"]),
        float(row["rate_rps"]),
        float(row.get("rate_weighted_cv") or 1),
    )
    if not (isfinite(start_s) and 0 <= rate < 1e9 and spread < 1e6):
        raise ValueError(f"a window at {start_s:g} s has a rate of {rate:g} and a spread of {spread:g}")
    return start_s, rate, max(1.0, spread)


def _arrivals(
    windows: Sequence[tuple[float, float, float]],
    width_s: float,
    scale: float,
    sample: Callable[[float], tuple[int, int]],
    random: Random,
) -> Iterator[Request]:
    """Renewals whose gaps spread as the window says (a gamma distribution with its coefficient of variation)."""
    begin_s = windows[0][0]
    for start_s, rate, spread in windows:
        if rate <= 0:
            continue
        shape = 1 / spread**2
        at_s = 0.0
        while True:
            at_s += random.gammavariate(shape, 1 / (shape * rate * scale))
            if at_s >= width_s:
                break
            yield Request(start_s - begin_s + at_s, *sample(start_s))


def _lengths(path: Path, name: str, choice: Choice, random: Random) -> Callable[[float], tuple[int, int]]:
    """Lengths by quantiles of the mixture in force; without such a file the median conversation of Azure's trace."""
    beside = choice.lengths or path.with_name("servegen_token_lengths_6h.csv")
    if not beside.is_file():
        if choice.lengths is not None:
            raise TraceError(f"{beside}: there is no such file; give the CSV of length mixtures")
        return lambda _: (_drawn(random, (374, 2000, 4000)), _drawn(random, (129, 430, 600)))
    rows = _read(beside, "length mixtures")
    if not set(rows[0]) >= _LENGTHS:
        raise TraceError(f"{beside}: the columns {', '.join(sorted(_LENGTHS))} are needed")
    try:
        table = dict(_mixture(row) for row in rows if row["model"] == name)
    except (KeyError, TypeError, ValueError) as error:
        raise TraceError(f"{beside}: {_told(error)}; a mixture has a start and quantiles, all numbers") from error
    starts = sorted({start for _, start in table})
    if not starts:
        raise TraceError(f"{beside}: it has no lengths of {name}")

    def sample(at_s: float) -> tuple[int, int]:
        start = max((each for each in starts if each <= at_s), default=starts[0])
        return (
            _drawn(random, table.get(("input_tokens", start), (374, 2000, 4000))),
            _drawn(random, table.get(("output_tokens", start), (129, 430, 600))),
        )

    return sample


def _mixture(row: Mapping[str, Any]) -> tuple[tuple[str, float], tuple[float, ...]]:
    """The field and start of a mixture, and its quantiles."""
    start_s, *quantiles = (float(row[key]) for key in ("window_start_s", "p50", "p90", "p99"))
    if not (isfinite(start_s) and all(0 <= each <= _MOST_TOKENS for each in quantiles)):
        raise ValueError(f"one at {start_s:g} s has the quantiles {', '.join(f'{each:g}' for each in quantiles)}")
    return (str(row["field"]), start_s), tuple(quantiles)


def _drawn(random: Random, quantiles: Sequence[float]) -> int:
    """A length between quantiles, on a log scale; the last percent is cut at p99."""
    points = [(0.0, 1.0), *zip((0.5, 0.9, 0.99), (max(value, 1.0) for value in quantiles), strict=True)]
    at = min(random.random(), 0.99)
    for (low, small), (high, large) in pairwise(points):
        if at <= high:
            return max(1, round(exp(log(small) + (log(large) - log(small)) * (at - low) / (high - low))))
    return round(points[-1][1])
