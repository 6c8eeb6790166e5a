"""A worker's compact page (docs/metrics.md) as the command line reads it: a reading, and the steps of its engine."""

import re
from dataclasses import dataclass, field

from modelfleet.cli.yaml_io import MissingExtraError
from modelfleet.core.perf.cells import Cells
from modelfleet.core.scaling.observed import Tally, grown
from modelfleet.core.scaling.page import PageError, Slot, reading, slot
from modelfleet.core.scaling.reading import Histogram, Reading
from modelfleet.core.scaling.step_samples import cells

_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)(?: \S+)?")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_PATIENCE_S = 10.0


class PageUnreadError(Exception):
    """The page cannot be had or is none of ours; the message is the end of a sentence."""


@dataclass(frozen=True, kw_only=True)
class WorkerPage:
    """What a page says now."""

    reading: Reading
    steps: Cells = field(default_factory=dict)

    @property
    def arrivals(self) -> int | None:
        """Requests that ever arrived; None where the worker has no promise and so counts none."""
        if not self.reading.promises:
            return None
        return sum(one.arrivals for objectives in self.reading.promises.values() for one in objectives.values())

    def since(self, before: "WorkerPage") -> Tally:
        """What ended in between, over all objectives."""
        total = Tally()
        for promise, objectives in self.reading.promises.items():
            for name, counts in objectives.items():
                total += grown(before.reading.of(promise, name), counts)
        return total

    def mean_ttft_s(self, before: "WorkerPage") -> float | None:
        """The mean time to the first token of what finished in between, by the engine's clock; None: nothing did."""
        total_s, count = 0.0, 0
        for promise, objectives in self.reading.promises.items():
            for name, counts in objectives.items():
                was = before.reading.of(promise, name)
                part = _less(counts.ttft_s, was.ttft_s if was else None)
                if part is not None:
                    total_s, count = total_s + part.sum, count + part.count
        return total_s / count if count else None


def _less(after: Histogram | None, before: Histogram | None) -> Histogram | None:
    return after - before if after is not None and before is not None and after.edges == before.edges else after


def parsed(text: str) -> WorkerPage:
    """The page of a text. Raises PageUnreadError."""
    found: dict[Slot, float] = {}
    for line in text.splitlines():
        match = _SAMPLE.fullmatch(line)
        if match is None or line.startswith("#"):
            continue
        where = slot(match[1], dict(_LABEL.findall(match[2] or "")))
        if where is not None:
            try:
                found[where] = float(match[3])
            except ValueError as error:
                raise PageUnreadError(f"has a line that is no sample: {line[:80]!r}") from error
    if not found:
        raise PageUnreadError("has no metric of a worker; give the address of its status port (8001)")
    try:
        return WorkerPage(reading=reading(found, "", 0.0), steps=cells(found.items()) or {})
    except PageError as error:
        raise PageUnreadError(f"is none of a worker: {error}") from error


async def read_page(url: str) -> WorkerPage:
    """The page at an address. Raises PageUnreadError and MissingExtraError."""
    try:
        import aiohttp
    except ImportError as error:
        raise MissingExtraError("aiohttp") from error
    timeout = aiohttp.ClientTimeout(total=_PATIENCE_S)
    try:
        async with aiohttp.ClientSession(timeout=timeout) as session, session.get(f"{url}/metrics") as response:
            if response.status != 200:
                raise PageUnreadError(f"answers with status {response.status}")
            return parsed(await response.text())
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        raise PageUnreadError(f"cannot be read ({type(error).__name__})") from error
