"""What a Prometheus is asked: PromQL. Pure.

A fleet of up to `PART` workers is one query. Where there are more, the first only says which there are, and each of
the others asks for some targets as of the same moment. They are whole targets: what was read by then may be stored
later, so a page that came in two answers could be of two moments all the same.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from modelfleet.core.scaling import step_samples
from modelfleet.core.scaling.page import NAMES

PART = 100
"""Workers that one query asks for: to parse its answer is one piece of work, in which nothing else goes on."""

STAMP = "modelfleet_stamp"
_POD = "modelfleet_worker_pod_info"
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def _series(steps: bool, of: str = "") -> str:
    names = (*NAMES, *step_samples.NAMES) if steps else NAMES
    return f'{{__name__=~"{"|".join(names)}"{of and ", "}{of}}}'


def _stamps(of: str = "") -> str:
    """For each worker when its page was read: an instant query says of a sample only when it was asked for."""
    return f'label_replace(timestamp({_POD}{{{of}}}), "{STAMP}", "sample", "", "")'


def _whole(steps: bool) -> str:
    return f"({_series(steps)} and on() (count({_POD}) <= {PART})) or {_stamps()}"


WHO_QUERY = _stamps()
"""Which workers there are, and when the page of each was read."""

QUERY, STEPS_QUERY = _whole(False), _whole(True)
"""The same and every series of every worker as of now, the second with the engines' steps. Where there are more workers
than one query asks for, the same alone."""


def part(selector: str, *, steps: bool) -> str:
    """Every series of some workers."""
    return f"{_series(steps, selector)} or {_stamps(selector)}"


def selectors(targets: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Each for some of the targets, all together for all: by the values of the label that differs most among them."""
    labels = sorted({label for each in targets for label in each if _LABEL.fullmatch(label)})
    if not labels:
        yield from [""] * bool(targets)
        return
    label = max(labels, key=lambda each: len({target.get(each, "") for target in targets}))
    by_value: dict[str, int] = {}
    for target in targets:
        value = target.get(label, "")
        by_value[value] = by_value.get(value, 0) + 1
    values: list[str] = []
    for value in sorted(by_value):
        if values and sum(map(by_value.__getitem__, values)) + by_value[value] > PART:
            yield _selector(label, values)
            values = []
        values.append(value)
    yield _selector(label, values)


def _selector(label: str, values: Iterable[str]) -> str:
    """A label that a target lacks has the value "" to Prometheus."""
    return f"{label}=~{json.dumps('|'.join(map(re.escape, values)), ensure_ascii=False)}"
