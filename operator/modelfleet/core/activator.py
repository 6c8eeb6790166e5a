"""What is observed of the activators: whether they answer, and what waits in them. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from modelfleet.core import raw

DEAD_S = 90.0
"""An activator writes its entry anew every 10 s while something waits (activator/demand.py), so one that was the same
for so long is of an activator that is gone."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a question through the model's Service came to. `proven`: an activator answered for this model. `why` says
    why not, as the end of a sentence. `silent_s`: for how long none has answered, by this process's clock."""

    proven: bool
    why: str = ""
    silent_s: float = 0.0


@dataclass(frozen=True)
class Waiting:
    """An activator's entry in status.demand. `at` tells two writes apart; it is never compared with a clock."""

    activator: str
    requests: int
    at: str


def waiting_in(deployment: Mapping[str, Any]) -> tuple[Waiting, ...]:
    """The entries of status.demand in which something waits."""
    return tuple(sorted(_entries(deployment), key=lambda entry: entry.activator))


def _entries(deployment: Mapping[str, Any]) -> Iterator[Waiting]:
    for entry in raw.items(deployment, "status", "demand"):
        requests = raw.integer(entry, "waiting")
        if requests > 0:
            yield Waiting(raw.text(entry, "activator"), requests, raw.text(entry, "at"))
