"""Text of a metrics page to the slots of a reading. Pure.

The format is parsed by the library of Prometheus, but each spelling of a name with its labels only once: of 10,000
pages almost all lines differ in their number alone.
"""

from collections.abc import Iterator

from prometheus_client.parser import text_string_to_metric_families

from modelfleet.core.scaling.page import PageError, Slot, slot
from modelfleet.core.scaling.step_samples import PREFIX

_MOST_KNOWN = 200_000


class Exposition:
    """Reads pages, and remembers what their lines begin with."""

    def __init__(self) -> None:
        self._known: dict[str, Slot | None] = {}
        self._steps: dict[str, Slot] = {}

    def found(self, text: str, *, steps: bool = False) -> dict[Slot, float]:
        """The slots of a page with their numbers, those of `steps` where they are wanted. Raises PageError if it is no
        page of metrics."""
        found: dict[Slot, float] = {}
        known = self._known
        for line in text.split("\n"):
            if not line or line[0] == "#":
                continue
            head, _, number = line.rpartition(" ")
            try:
                where = known[head] if head in known else self._learned(head)
                if where is None and steps:
                    where = self._steps.get(head)
                if where is not None:
                    found[where] = float(number)
            except ValueError as error:
                raise PageError(f"this line of the page is no sample: {line[:80]!r}") from error
        if not found:
            raise PageError("the page has no metric of a worker")
        return found

    def _learned(self, head: str) -> Slot | None:
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
            self._steps.clear()
        where = next((slot(name, labels) for name, labels in _parsed(head)), None)
        if where is not None and where.part.startswith(PREFIX):
            self._steps[head], where = where, None
        self._known[head] = where
        return where


def _parsed(head: str) -> Iterator[tuple[str, dict[str, str]]]:
    for family in text_string_to_metric_families(f"{head} 0\n"):
        for sample in family.samples:
            yield sample.name, sample.labels
