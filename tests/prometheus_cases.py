"""What must hold of samples that come through a Prometheus, fake or real: one table, which both are put through."""

from collections.abc import Awaitable, Callable, Mapping, Set
from dataclasses import replace
from typing import Protocol

from modelfleet.controller.metrics.exposition import Exposition
from modelfleet.controller.metrics.prometheus import Prometheus
from modelfleet.controller.metrics.queries import PART
from modelfleet.controller.metrics.sampler import Indirect
from modelfleet.controller.metrics.settings import Server
from modelfleet.controller.metrics.vector import Page
from modelfleet.core.scaling.page import origin, reading
from sampled import KEY, Sampled, worker
from worker_pages import Numbers, WorkerPage, good

Target = Mapping[str, str]
"""Labels that Prometheus gives to all series of one target."""

OURS = (
    "promise",
    "objective",
    "outcome",
    "apart",
    "le",
    "kv",
    "phase",
    "state",
    "revision",
    "worker_pod",
    "worker_pod_uid",
)
"""The labels of docs/metrics.md that samples are made of."""
_CLOCK_S = 0.01  # Prometheus moves the time of a scrape by up to 2 ms, so that its steps are even
_STEPS = [
    [good(0), good(100, 2, ttft_s=[0.1] * 90 + [0.7] * 12, prompts=[100] * 102, in_flight=4)],
    [
        Numbers(),
        Numbers(arrivals=9, ended={"met": 3, "failed": 1, "aborted": 2}, longer={"met": 3}, answers=[70, 900, 20]),
    ],
]


class Scraping(Protocol):
    """A Prometheus that scrapes what it is told."""

    url: str

    @property
    def now(self) -> float:
        """Its time, in seconds since the epoch."""

    async def scrape(self, *pages: tuple[Target, str]) -> None:
        """Once this returns, it has read these pages, and knows of no other targets."""


def target(index: int = 0, **labels: str) -> Target:
    return {"job": "workers", "instance": f"10.0.0.{index}:8001", "namespace": "team", **labels}


def page(index: int = 0, count: int = 5) -> WorkerPage:
    return Sampled().page(worker(index), good(count))


def stamped(text: str, at: float) -> str:
    """The page with the time of each sample on it, which Prometheus takes for the time at which it was read."""
    lines = text.splitlines()
    return "".join(f"{line}\n" if line.startswith("#") else f"{line} {round(at * 1000)}\n" for line in lines)


async def ask(server: Scraping, sampled: Sampled) -> None:
    """One round of the operator against it."""
    await Indirect(sampled.book, Prometheus(Server(url=server.url)), 0.0).round()


async def found(source: Prometheus, uids: Set[str] = frozenset()) -> list[Page]:
    """All pages that it says of pods."""
    return [page async for some in source.pages(uids) for page in some]


async def pages(server: Scraping) -> dict[str, Page]:
    """By uid, the newest."""
    read = await found(Prometheus(Server(url=server.url)))
    return {each.origin.uid: each for each in sorted(read, key=lambda each: -each.age_s)}


def everything(sampled: Sampled):
    """All but the clock: the one of samples through Prometheus is the event loop's, which a test does not set."""
    samples = sampled.book.samples(KEY)
    return {uid: (pod.failure, [replace(each, at_s=0.0) for each in pod.readings]) for uid, pod in samples.pods.items()}


async def _same_samples(server: Scraping) -> None:
    direct, indirect = Sampled().follow(worker(0), worker(1)), Sampled().follow(worker(0), worker(1))
    for step in range(2):
        scraped = []
        for index in range(2):
            more = {"waiting": index, "steps": 40 * step}
            direct.read(_STEPS[index][step], worker(index), **more)
            scraped.append((target(index), direct.page(worker(index), _STEPS[index][step], **more).text))
        await server.scrape(*scraped)
        await ask(server, indirect)
        assert everything(indirect) == everything(direct)
        direct.now_s += 60


async def _age(server: Scraping) -> None:
    at = int(server.now - 42)
    await server.scrape((target(10), stamped(page(10).text, at)))
    asked = server.now
    age_s = (await pages(server))["uid-10"].age_s
    assert asked - at - _CLOCK_S <= age_s <= server.now - at + _CLOCK_S
    sampled = Sampled().follow(worker(10))
    await ask(server, sampled)
    assert sampled.book.samples(KEY).pods["uid-10"].failure == "Prometheus has not read it for more than 30 s"


async def _newest(server: Scraping) -> None:
    sampled, now = Sampled().follow(worker(20)), int(server.now)
    await server.scrape(
        *(
            (target(20, prometheus_replica=replica), stamped(page(20, count).text, now - age_s))
            for replica, count, age_s in (("a", 5, 20), ("b", 6, 3))
        )
    )
    read = await found(Prometheus(Server(url=server.url)))
    assert len([each for each in read if each.origin.uid == "uid-20"]) == 2
    await ask(server, sampled)
    (only,) = sampled.book.samples(KEY).pods["uid-20"].readings
    assert next(iter(only.promises.values()))["interactive"].arrivals == 6


async def _colliding_labels(server: Scraping) -> None:
    labels = [*({each: "of-the-target"} for each in OURS), dict.fromkeys(OURS, "of-the-target")]
    scraped = {f"uid-{index}": (target(index, **each), page(index).text) for index, each in enumerate(labels, 30)}
    await server.scrape(*scraped.values())
    read = await pages(server)
    for uid, (labelled, text) in scraped.items():
        plain = Exposition().found(text)
        assert read[uid].origin == origin(plain), labelled
        assert reading(read[uid].found, uid, 0.0) == reading(plain, uid, 0.0), labelled


async def _gone_pod(server: Scraping) -> None:
    sampled = Sampled().follow(worker(1))
    await server.scrape(*((target(index), page(index, 7).text) for index in range(2)))
    await ask(server, sampled)
    samples = sampled.book.samples(KEY)
    assert (list(samples.pods), samples.gone) == (["uid-1"], ())


async def _lost_target(server: Scraping) -> None:
    """Once Prometheus is told of a target no more, its series are gone at once, and not repeated for five minutes."""
    sampled = Sampled().follow(worker(0), worker(1))
    await server.scrape(*((target(index), page(index).text) for index in range(2)))
    await ask(server, sampled)
    await server.scrape((target(1), page(1).text))
    await ask(server, sampled)
    pods = sampled.book.samples(KEY).pods
    assert {uid: pod.failure for uid, pod in pods.items()} == {"uid-0": "Prometheus has no series of it", "uid-1": None}
    assert len(pods["uid-0"].readings) == 1, "what was read before ages"


async def _old_worker(server: Scraping) -> None:
    """Without a pod's name on it a page is nobody's, and the pages beside it are read all the same."""
    sampled = Sampled().follow(worker(0), worker(1))
    await server.scrape((target(0), replace(page(0), named=False).text), (target(1), page(1).text))
    await ask(server, sampled)
    pods = sampled.book.samples(KEY).pods
    assert (pods["uid-0"].failure, len(pods["uid-1"].readings)) == ("Prometheus has no series of it", 1)


async def _shown_again(server: Scraping) -> None:
    """A look that fails in between is forgotten with the next that does not."""
    sampled = Sampled().follow(worker(90))
    await server.scrape((target(90), stamped(page(90).text, int(server.now))))
    operator = Indirect(sampled.book, Prometheus(Server(url=server.url)), 0.0)
    for _ in range(10):
        await operator.round()
        pod = sampled.book.samples(KEY).pods["uid-90"]
        assert (len(pod.readings), pod.failure) == (1, None)
        sampled.book.fail("uid-90", "cut off")


async def _large_fleet(server: Scraping) -> None:
    """More than one query asks for; the names of their nodes and pods have what means something in a regex."""
    count = PART + 30
    sampled = Sampled().follow(*map(worker, range(count)))
    named = [target(index, node=f"n+{index % 3}", pod=f'a.b-{index}|"\\d') for index in range(count)]
    await server.scrape(*((named[index], page(index, index).text) for index in range(count)))
    await ask(server, sampled)
    pods = sampled.book.samples(KEY).pods
    assert {pod.failure for pod in pods.values()} == {None}
    arrivals = {
        uid: next(iter(pod.readings[-1].promises.values()))["interactive"].arrivals for uid, pod in pods.items()
    }
    assert arrivals == {f"uid-{index}": index for index in range(count)}


async def _few_of_many(server: Scraping) -> None:
    """A Prometheus of several clusters: what is not followed is not asked for, but as there are too many."""
    await server.scrape(*((target(index), page(index, 7).text) for index in range(PART + 1)))
    sampled = Sampled().follow(worker(3), worker(PART))
    await ask(server, sampled)
    pods = sampled.book.samples(KEY).pods
    assert {uid: (pod.failure, len(pod.readings)) for uid, pod in pods.items()} == {
        "uid-3": (None, 1),
        f"uid-{PART}": (None, 1),
    }


CASES: dict[str, Callable[[Scraping], Awaitable[None]]] = {
    "both sources give the same samples": _same_samples,
    "the age of a sample is that of the scrape not of the query": _age,
    "of two Prometheus behind one address the newer sample counts": _newest,
    "labels of the target that are called like ours do not mix them up": _colliding_labels,
    "series of a pod that is gone never count": _gone_pod,
    "a target that is no more is no data": _lost_target,
    "a page that is shown again is the same sample": _shown_again,
    "a fleet of more workers than one query asks for": _large_fleet,
    "a few workers among more than one query asks for": _few_of_many,
    "a worker that does not say which pod it is of is no data": _old_worker,
}
