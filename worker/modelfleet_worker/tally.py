"""The counts of one promise: a file a process, one writer each, without a lock. Standard library only.

Made anew for each promise, so counts of two promises never meet: a request that arrived under the earlier one is
judged by that one and counted in its file.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from modelfleet_worker.goodput import SHARES, VERDICTS, Ending, Share, Verdict, judge, share
from modelfleet_worker.ledger import Request
from modelfleet_worker.promise import Objective, Promise
from modelfleet_worker.words import Histogram, Words, of_processes

_OF_LIMIT = (0.125, 0.25, 0.5, 0.75, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 4.0, 8.0)
"""Edges of a latency histogram, as parts of its limit, which is one of them."""
_LENGTHS = (16, 64, 256, 1024, 4096, 16384, 65536, 262144)
"""Edges of a length histogram in tokens, besides those that are declared."""
_MICRO = 1_000_000
_COUNTS = len(SHARES) * len(VERDICTS)


class Layout:
    """Where each number of one objective stands in the file."""

    def __init__(self, objective: Objective, start: int) -> None:
        self.objective = objective
        self.arrivals, self.in_flight, self.counts = start, start + 1, start + 2
        self.ttft = Histogram(_edges(objective.ttft_s), self.counts + _COUNTS)
        self.tpot = Histogram(_edges(objective.tpot_s), self.ttft.end)
        self.input = Histogram(sorted({*_LENGTHS, *objective.input_edges}), self.tpot.end)
        self.output = Histogram(sorted({*_LENGTHS, *objective.output_edges}), self.input.end)
        self.end = self.output.end

    def count(self, counts_in: Share, verdict: Verdict) -> int:
        """Which word counts this."""
        return self.counts + SHARES.index(counts_in) * len(VERDICTS) + VERDICTS.index(verdict)


def _edges(limit_s: float) -> list[float]:
    return [float(f"{limit_s * part:.6g}") if part != 1.0 else limit_s for part in _OF_LIMIT]


_UNKNOWN_NAMES = 0  # the first word: requests that named an objective which there is not


def layouts(promise: Promise) -> tuple[Layout, ...]:
    """The layout of each objective, in the promise's order."""
    found: list[Layout] = []
    start = _UNKNOWN_NAMES + 1
    for objective in promise.objectives:
        found.append(Layout(objective, start))
        start = found[-1].end
    return tuple(found)


class Tally:
    """The counts of this process for one promise."""

    def __init__(self, folder: Path, promise: Promise) -> None:
        self.promise = promise
        self._layouts = layouts(promise)
        self._words = Words(tally_file(folder, promise, os.getpid()), self._layouts[-1].end, create=True)

    def begin(self, name: str | None) -> int:
        """A request arrived that named an objective, or none; which one it is judged by. Unknown: the first."""
        index = 0 if name is None else self.promise.index(name)
        if index is None:
            self._words[_UNKNOWN_NAMES] += 1
            index = 0
        self._words[self._layouts[index].arrivals] += 1
        self._words[self._layouts[index].in_flight] += 1
        return index

    def end(self, index: int, request: Request, *, at_zero: bool) -> Verdict:
        """A request that began has ended. `at_zero`: no replica ran when it arrived."""
        layout, view = self._layouts[index], self._words.view
        counts_in = share(layout.objective, request.input_tokens, at_zero=at_zero)
        seen = request.measured() if request.ending is Ending.FINISHED else None
        waited_s = request.waited_s() if request.ending is Ending.ABORTED else 0.0
        verdict = judge(layout.objective, counts_in, request.ending, seen, waited_s)
        view[layout.count(counts_in, verdict)] += 1
        view[layout.in_flight] -= 1
        if seen is not None:
            layout.input.add(view, seen.input_tokens, seen.input_tokens)
            layout.output.add(view, seen.output_tokens, seen.output_tokens)
            if counts_in is Share.PROMISE:
                layout.ttft.add(view, seen.ttft_s, round(seen.ttft_s * _MICRO))
                layout.tpot.add(view, seen.tpot_s, round(seen.tpot_s * _MICRO))
        return verdict


@dataclass(frozen=True)
class Buckets:
    """A histogram's counts by upper edge (the last without one), and its sum."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float


@dataclass(frozen=True)
class ObjectiveCounts:
    """All processes' counts for one objective."""

    name: str
    arrivals: int
    in_flight: int
    ended: Mapping[Share, Mapping[Verdict, int]]
    ttft_s: Buckets
    tpot_s: Buckets
    input_tokens: Buckets
    output_tokens: Buckets


@dataclass(frozen=True)
class PromiseCounts:
    """All processes' counts for one promise."""

    promise: Promise
    objectives: tuple[ObjectiveCounts, ...]
    unknown_names: int = 0
    in_flight: int = 0


def read_tally(folder: Path, promise: Promise) -> PromiseCounts:
    """The sum over the processes; zeros where none has counted yet. A process that died has nothing in flight: what it
    had failed."""
    found = layouts(promise)
    total = _total(folder, promise, found, lambda pid: Path(f"/proc/{pid}").exists())
    objectives = tuple(_counts(total, layout) for layout in found)
    return PromiseCounts(promise, objectives, total[_UNKNOWN_NAMES], sum(one.in_flight for one in objectives))


def fold(folder: Path, promise: Promise, into: Path) -> None:
    """Closes the books of processes that are all gone: their sum goes to the file of process 0, which never is one, in
    the folder `into`."""
    total = _total(folder, promise, layouts(promise), lambda _: False)
    closed = Words(tally_file(into, promise, 0), len(total), create=True)
    for index, number in enumerate(total):
        closed[index] = number


def tally_file(folder: Path, promise: Promise, pid: int) -> Path:
    """The file of one process."""
    return folder / f"{_prefix(promise)}-{pid}"


def _total(folder: Path, promise: Promise, found: Sequence[Layout], lives: Callable[[int], bool]) -> list[int]:
    """The sum over processes; what one had in flight when it died failed."""
    total = [0] * found[-1].end
    for pid, words in of_processes(folder, _prefix(promise), len(total)):
        numbers = list(words.view)
        for layout in found if not lives(pid) else ():
            numbers[layout.count(Share.PROMISE, Verdict.FAILED)] += numbers[layout.in_flight]
            numbers[layout.in_flight] = 0
        total = [one + other for one, other in zip(total, numbers, strict=True)]
    return total


def _counts(numbers: list[int], layout: Layout) -> ObjectiveCounts:
    def buckets(histogram: Histogram, unit: int) -> Buckets:
        counts = tuple(numbers[histogram.start : histogram.end - 1])
        return Buckets(histogram.edges, counts, numbers[histogram.end - 1] / unit)

    ended = {one: {verdict: numbers[layout.count(one, verdict)] for verdict in VERDICTS} for one in SHARES}
    return ObjectiveCounts(
        name=layout.objective.name,
        arrivals=numbers[layout.arrivals],
        in_flight=numbers[layout.in_flight],
        ended=ended,
        ttft_s=buckets(layout.ttft, _MICRO),
        tpot_s=buckets(layout.tpot, _MICRO),
        input_tokens=buckets(layout.input, 1),
        output_tokens=buckets(layout.output, 1),
    )


def _prefix(promise: Promise) -> str:
    return f"goodput-{promise.digest}"
