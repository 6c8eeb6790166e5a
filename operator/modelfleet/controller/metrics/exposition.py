"""Text of a metrics page to the slots of a reading. Pure.

The format is parsed by the library of Prometheus, but each spelling of a name with its labels only once: of 10,000
pages almost all lines differ in their number alone. Lines that no reading is made of are passed over.

Whoever can write into a pod can answer as its page, so what one page can make us do and remember is bounded.
"""

from collections.abc import Iterator

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from modelfleet.core.scaling import step_samples
from modelfleet.core.scaling.page import NAMES, PageError, Slot, slot

_MOST_KNOWN = 300_000
"""Spellings, of some 460 bytes each: 1,000 models of two objectives, each under a promise of its own, have 220,000."""
_LEAVE = 16
"""Where there is no more room, one spelling of so many leaves."""
_MOST_LEARNED = 5_000
"""Spellings that are new on one page: a worker of four objectives under two promises has some 700."""
_MOST_HEAD = 1_000
_NAMES, _STEPS = frozenset(NAMES), frozenset(step_samples.NAMES)


class Exposition:
    """Reads pages, and remembers what their lines begin with, at most `most_known` spellings."""

    def __init__(self, most_known: int = _MOST_KNOWN) -> None:
        self._most_known = most_known
        self._known: dict[str, Slot] = {}
        self._steps: dict[str, Slot] = {}
        self._turn = 0

    def found(self, text: str, *, steps: bool = False) -> dict[Slot, float]:
        """The slots of a page with their numbers, those of `steps` where they are wanted. Raises PageError if it is no
        page of metrics."""
        found: dict[Slot, float] = {}
        known, learned = self._known, 0
        for line in text.split("\n"):
            if not line or line[0] == "#":
                continue
            head, _, number = line.rpartition(" ")
            try:
                where = known.get(head)
                if where is None:
                    name = head.partition("{")[0].partition(" ")[0]
                    if name not in _NAMES and not (steps and name in _STEPS):
                        continue
                    into = known if name in _NAMES else self._steps
                    where = into.get(head)
                    if where is None:
                        learned += 1
                        where = into[head] = self._learned(head, learned)
                found[where] = float(number)
            except ValueError as error:
                raise PageError(f"this line of the page is no sample: {line[:80]!r}") from error
        if not found:
            raise PageError("the page has no metric of a worker")
        if not text.endswith("\n"):
            raise PageError("the page has no end: it was cut")
        return found

    def _learned(self, head: str, learned: int) -> Slot:
        """Raises ValueError for what is no name with its labels: a time after the number makes the number one's end."""
        if learned > _MOST_LEARNED:
            raise PageError(f"the page has more than {_MOST_LEARNED} metrics that no other page has")
        samples = list(_parsed(head)) if len(head) <= _MOST_HEAD else []
        where = slot(samples[0].name, samples[0].labels) if len(samples) == 1 else None
        if where is None or samples[0].timestamp is not None:
            raise ValueError
        if len(self._known) + len(self._steps) >= self._most_known:
            self._make_room()
        return where

    def _make_room(self) -> None:
        """Spellings leave whatever their age: all come again in the same order within each interval, so that the one
        that was not read for the longest would always be the next to be wanted. What is of no use any more leaves in
        time."""
        while len(self._known) + len(self._steps) >= self._most_known:
            self._turn = (self._turn + 1) % _LEAVE
            for heads in (self._known, self._steps):
                for head in [each for each in heads if hash(each) % _LEAVE == self._turn]:
                    del heads[head]


def _parsed(head: str) -> Iterator[Sample]:
    for family in text_string_to_metric_families(f"{head} 0\n"):
        yield from family.samples
