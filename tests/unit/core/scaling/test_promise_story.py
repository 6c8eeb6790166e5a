"""What a status tells of the promise while time passes, by the real reconcile: stories of one deployment."""

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from builders import Fleet, check_status, condition, manual
from modelfleet.controller.metrics.workers import Worker
from modelfleet.core.effects import Outcome
from modelfleet.core.measured import HOLD_S, measured_part
from modelfleet.core.reconcile import plan
from sampled import Sampled, parsed
from worker_pages import Numbers

STEP_S = 5.0
OBJECTIVE = {
    "name": "interactive",
    "ttft": "500ms",
    "tpot": "50ms",
    "share": "90%",
    "load": {"requestsPerSecond": 100},
    "lengths": {"inputTokens": {"p50": 100, "p95": 400}, "outputTokens": {"p50": 50, "p95": 200}},
}


@dataclass
class Story:
    """A fleet in mode Manual whose pods count requests; `statuses` are those that were written."""

    replicas: int = 2
    spec: dict[str, Any] = field(default_factory=dict)
    silent: bool = False
    counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    statuses: list[tuple[float, Any]] = field(default_factory=list)
    told: tuple[str, float] = ("", float("-inf"))

    def __post_init__(self) -> None:
        spec = {"objectives": [OBJECTIVE], **self.spec}
        self.fleet = Fleet(deployment=manual(self.replicas, **spec))
        self.fleet.settle()
        self.sampled = Sampled(parsed(**spec))

    def run(self, seconds: float, good: int = 0, late: int = 0, of: str = "") -> Outcome:
        """Every 5 s each pod (of the revision `of`) counts so many requests and is read; every 15 s one reconcile."""
        for step in range(int(seconds / STEP_S)):
            self.sampled.now_s += STEP_S
            self._read(good, late, of)
            if step % 3 == 0:
                outcome = self.reconcile()
        return outcome

    def follow(self) -> list[Worker]:
        """The workers are known."""
        pods = self.fleet.pods()
        found = [
            Worker(uid=pod["metadata"]["uid"], name=name, revision=name.split("-")[1], host="10.0.0.1")
            for name, pod in pods.items()
        ]
        self.sampled.follow(*found)
        return found

    def _read(self, good: int, late: int, of: str) -> None:
        for worker in self.follow():
            before = self.counts.get(worker.uid, (0, 0))
            more = (good, late) if worker.revision.startswith(of) else (0, 0)
            now = self.counts[worker.uid] = (before[0] + more[0], before[1] + more[1])
            numbers = Numbers(arrivals=sum(now), ended={"met": now[0], "late_tpot": now[1]})
            if self.silent:
                self.sampled.book.fail(worker.uid, "its page does not answer within 4 s")
            else:
                self.sampled.read(numbers, worker)

    def reconcile(self) -> Outcome:
        """One, with what was measured; its effects are carried out, pods take a step."""
        now_s = self.sampled.now_s
        part = measured_part(self.fleet.deployment)
        if part != self.told[0]:
            self.told = (part, now_s)
        world = replace(self.fleet.world(), samples=self.sampled.samples, told_s=now_s - self.told[1])
        outcome = plan(world)
        check_status(outcome.status)
        if outcome.status != self.fleet.deployment.get("status"):
            self.statuses.append((now_s, outcome.status))
        self.fleet.deployment["status"] = dict(outcome.status)
        self.fleet._execute(outcome.effects)
        self.fleet.tick(15.0)
        return outcome

    @property
    def said(self) -> tuple[str, str]:
        """Status and reason of ObjectivesMet."""
        return condition(self.fleet.deployment["status"], "ObjectivesMet")[:2]


def test_a_promise_is_unknown_then_kept_then_broken_and_the_figures_follow():
    story = Story()
    story.run(45, good=20)
    assert story.said == ("Unknown", "TooFewRequests")
    story.run(300, good=20)
    assert story.said == ("True", "ShareKept")
    story.run(420, good=10, late=10)
    assert story.said == ("False", "ShareMissed")
    status = story.fleet.deployment["status"]
    assert (status["goodput"]["share"], status["goodput"]["requestsPerSecond"]) == ("50%", "4")
    assert "slow afterwards" in condition(status, "ObjectivesMet")[2]
    story.run(600)
    assert story.said == ("Unknown", "NoTraffic")
    assert "share" not in story.fleet.deployment["status"]["goodput"]


def test_an_operator_that_has_read_nothing_yet_leaves_the_reason_why_nothing_is_known():
    story = Story(silent=True)
    story.run(120)
    assert story.said == ("Unknown", "NoData")
    told = len(story.statuses)
    story.sampled = Sampled(parsed(objectives=[OBJECTIVE]), now_s=story.sampled.now_s)  # another operator
    story.follow()
    story.reconcile()
    assert len(story.statuses) == told


def test_figures_are_written_once_a_minute_at_most_and_a_change_of_what_follows_at_once():
    story = Story()
    for good in range(10, 24):  # the rate moves all the time, the share does not
        story.run(20, good=good)
    told = [(at_s, condition(status, "ObjectivesMet")[:2]) for at_s, status in story.statuses]
    early = [b - a for (a, was), (b, now) in pairwise(told) if b - a < HOLD_S and was == now]
    assert early == []
    assert len(told) > 3


def test_while_newer_figures_are_held_the_operator_looks_again_when_the_minute_is_over():
    story = Story()
    story.run(300, good=20)
    held = [story.run(15, good=30).wake_after_s for _ in range(8)]
    assert any(wake is not None and 0 < wake <= HOLD_S for wake in held)


def test_a_second_reconcile_of_an_unchanged_world_changes_nothing():
    story = Story()
    story.run(300, good=20)
    before = len(story.statuses)
    for _ in range(3):
        assert story.reconcile().effects == ()
    assert len(story.statuses) == before


def test_metrics_that_are_cut_are_no_data_and_come_back():
    story = Story()
    story.run(300, good=20)
    story.silent = True
    story.run(60)
    assert story.said == ("Unknown", "NoData")
    assert "goodput" not in story.fleet.deployment["status"]
    assert "its page does not answer within 4 s" in condition(story.fleet.deployment["status"], "ObjectivesMet")[2]
    story.silent = False
    story.run(120, good=20)
    assert story.said == ("True", "ShareKept")


def test_what_the_status_said_is_nothing_that_is_decided_from():
    story, other = Story(), Story()
    for each in (story, other):
        each.run(300, good=20)
    del other.fleet.deployment["status"]
    for each in (story, other):
        each.run(15, good=20)
    assert other.said == story.said == ("True", "ShareKept")
    assert other.fleet.pods().keys() == story.fleet.pods().keys()


def test_a_preview_without_samples_measures_nothing():
    fleet = Fleet(deployment=manual(1, objectives=[OBJECTIVE]))
    status = fleet.settle().status
    assert (condition(status, "ObjectivesMet")[1], "goodput" in status) == ("NotMeasured", False)


def test_what_was_observed_of_a_replica_stands_beside_what_was_predicted():
    story = Story()
    story.run(300, good=20)
    assert story.fleet.deployment["status"]["plan"]["pools"][0]["observed"] == {
        "requestsPerSecond": "4",
        "concurrency": "0",
        "kvCacheTokens": 4096,
    }


def test_a_new_revision_that_breaks_what_the_old_one_keeps_is_given_up():
    story = Story(replicas=3)
    story.run(120, good=20)
    old = next(iter(story.fleet.pods())).split("-")[1]
    story.fleet.deployment["spec"]["engine"] = {"args": {"max-num-seqs": 4}}
    story.fleet.deployment["metadata"]["generation"] += 1
    for _ in range(60):
        story.run(15, good=20, of=old)
        for name, pod in story.fleet.pods().items():
            if name.split("-")[1] != old:
                good, late = story.counts.get(pod["metadata"]["uid"], (0, 0))
                story.counts[pod["metadata"]["uid"]] = (good + 10, late + 40)
        if condition(story.fleet.deployment["status"], "Progressing")[1] == "RolledBack":
            break
    status = story.fleet.deployment["status"]
    assert condition(status, "Progressing")[1] == "RolledBack"
    assert "requests kept the promise of 90.0%, which the old revision keeps" in condition(status, "Progressing")[2]
    story.run(300, good=20)
    assert {name.split("-")[1] for name in story.fleet.pods()} == {old}
