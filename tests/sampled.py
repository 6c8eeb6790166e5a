"""Samples of a ModelDeployment for tests: pods that are read every few seconds, by numbers, through the real path."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from builders import deployment
from modelfleet.api.modeldeployment import ModelDeployment
from modelfleet.controller.metrics.book import Book
from modelfleet.controller.metrics.exposition import Exposition
from modelfleet.controller.metrics.workers import Worker
from modelfleet.controller.triggers import Key
from modelfleet.core.promise import promise
from modelfleet.core.scaling.samples import Samples
from modelfleet_worker.promise import Promise, parse_promise
from worker_pages import Numbers, WorkerPage

KEY = Key("team", "chat")
_Rows = Numbers | Mapping[str, Numbers]


def parsed(**spec: Any) -> ModelDeployment:
    """A valid ModelDeployment."""
    return ModelDeployment.model_validate(deployment(**spec))


def promise_of(of: ModelDeployment) -> Promise:
    """Its promise, as its workers have it."""
    return parse_promise(json.dumps(promise(of)))


def worker(index: int = 0, revision: str = "1a2b3c4d") -> Worker:
    """The worker in a slot."""
    return Worker(uid=f"uid-{index}", name=f"chat-{revision}-{index}", revision=revision, host="127.0.0.1")


@dataclass
class Sampled:
    """A clock, and the workers that are read by it."""

    deployment: ModelDeployment = field(default_factory=parsed)
    now_s: float = 1000.0

    def __post_init__(self) -> None:
        self.book = Book(lambda: self.now_s)
        self.exposition = Exposition()
        self.workers: dict[str, Worker] = {}

    def follow(self, *workers: Worker) -> "Sampled":
        """These workers are there now."""
        self.workers = {each.uid: each for each in workers}
        self.book.follow(KEY, workers)
        return self

    def page(self, of: Worker, numbers: Numbers | Mapping[str, Numbers], **more: Any) -> WorkerPage:
        """What a worker's page says."""
        by_name = numbers if isinstance(numbers, Mapping) else {"interactive": numbers}
        return WorkerPage(promise=promise_of(self.deployment), numbers=by_name, uid=of.uid, name=of.name, **more)

    def read(self, numbers: Numbers | Mapping[str, Numbers], of: Worker | None = None, **more: Any) -> str | None:
        """Reads one worker now; why it does not count."""
        one = of or next(iter(self.workers.values()))
        return self.book.take(one, self.exposition.found(self.page(one, numbers, **more).text), self.now_s)

    def over(
        self, seconds: float, numbers: Iterable[Numbers | Mapping[str, Numbers]], of: Worker | None = None
    ) -> None:
        """Reads one worker at even steps over `seconds`; the first reading is now."""
        rows = list(numbers)
        for index, row in enumerate(rows):
            self.read(row, of)
            if index + 1 < len(rows):
                self.now_s += seconds / (len(rows) - 1)

    @property
    def samples(self) -> Samples:
        """What is known now."""
        return self.book.samples(KEY)
