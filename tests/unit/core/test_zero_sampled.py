"""To zero and back where samples decide the number: what was needed before the night is not what the morning gets."""

import copy
import json
from dataclasses import dataclass, field, replace
from functools import cache

import pytest

from builders import START, Raw, merged
from modelfleet.api import names
from modelfleet.api.parse import parse_deployment
from modelfleet.core.effects import Outcome
from modelfleet.core.placement.project import empty_node
from modelfleet.core.promise import digest
from modelfleet.core.scaling.history import SLOT_S
from modelfleet.core.scaling.joining import thinned
from modelfleet.core.scaling.ledger import loaded, replay
from modelfleet.core.scaling.memory import Kept
from modelfleet.core.scaling.reading import ObjectiveCounts, Outcomes, Reading
from modelfleet.core.scaling.samples import PodSamples, Samples
from modelfleet.core.snapshot import Inventory, World
from planner_worlds import gpu_class, node, objective, planned
from zero_site import Site

STEP_S = 5.0
NIGHT_S = 8 * 3600.0


def sleeper(**scaling: object) -> Raw:
    """A model with a knee that goes to zero after two minutes."""
    terms = {"minReplicas": 0, "maxReplicas": 12, "toZero": {"after": "2m", "firstCallerWaits": "5m"}}
    return planned(scaling=merged(terms, scaling), objectives=objective(firstCaller="Excused"))


@dataclass
class Sleeper(Site):
    """`rps` requests a second come while replicas serve, all of them good."""

    deployment: Raw = field(default_factory=sleeper)
    classes: dict[str, Raw] = field(default_factory=lambda: {"h100": gpu_class()})
    rps: float = 0.0
    came: dict[str, float] = field(default_factory=dict)
    readings: dict[str, tuple[Reading, ...]] = field(default_factory=dict)
    kept: Kept | None = None

    def world(self) -> World:
        """What a gatherer would read now."""
        return replace(super().world(), inventory=Inventory(nodes=(empty_node(node("one")),)), scaling=self.kept)

    def look(self, cut: int | None = None) -> Outcome:
        """One reconcile; the process remembers the decision, a killed one does not."""
        outcome = super().look(cut)
        if cut is None:
            self.kept = outcome.scaling.kept if outcome.scaling else None
        return outcome

    def kill(self) -> None:
        """Another process knows what is in the cluster."""
        super().kill()
        self.kept, self.readings = None, {}

    def tick(self, seconds: float = STEP_S, choose: object = None) -> None:
        """Time passes, requests come, and every worker is read."""
        super().tick(seconds, choose)
        serving = [pod["metadata"]["uid"] for pod in self.pods().values() if self._gets(pod)]
        at_s = (self.now - START).total_seconds()
        for uid in serving:
            self.came[uid] = self.came.get(uid, 0.0) + self.rps * seconds / len(serving)
            self.arrived[uid] = int(self.came[uid])
            self.readings[uid] = thinned((*self.readings.get(uid, ()), self._reading(uid, at_s)), at_s)

    def _gets(self, pod: Raw) -> bool:
        ready = any(each.get("type") == "Ready" for each in pod["status"].get("conditions", ()))
        return ready and pod["metadata"]["labels"].get(names.SERVING_LABEL) == "true"

    def _reading(self, uid: str, at_s: float) -> Reading:
        promise = digest(parse_deployment(self.deployment))  # type: ignore[arg-type]
        count = self.arrived[uid]
        counts = {"interactive": ObjectiveCounts(arrivals=count, ended=Outcomes(met=count))}
        flight = int(self.rps > 0)
        return Reading(pod_uid=uid, at_s=at_s, promise=promise, promises={promise: counts}, in_flight=flight, waiting=0)

    def _samples(self) -> Samples:
        found = {}
        for name, pod in self.pods().items():
            uid = pod["metadata"]["uid"]
            revision = str(pod["metadata"]["labels"].get(names.REVISION_LABEL, ""))
            found[uid] = PodSamples(uid=uid, name=name, revision=revision, readings=self.readings.get(uid, ()))
        return Samples(at_s=(self.now - START).total_seconds(), pods=found)

    @property
    def stored(self) -> Raw:
        """What NAME-state holds of the number of replicas."""
        return dict(json.loads(self.objects["ConfigMap", names.state("chat")]["data"][names.SCALING_KEY]))

    def store(self, value: Raw) -> None:
        """As another version wrote it."""
        self.objects["ConfigMap", names.state("chat")]["data"][names.SCALING_KEY] = json.dumps(value)

    @property
    def knee_rps(self) -> float:
        """Of one replica."""
        return float(self.deployment["status"]["plan"]["pools"][0]["predicted"]["kneeRequestsPerSecond"])


def asleep(**scaling: object) -> Sleeper:
    """A model at zero that had a busy evening."""
    return copy.deepcopy(_evening(json.dumps(scaling)))


@cache
def _evening(scaling: str) -> Sleeper:
    site = Sleeper(deployment=sleeper(**json.loads(scaling)))
    site.pass_time(40, each=10)
    site.rps = site.knee_rps * 6
    site.pass_time(300, each=10)
    assert site.serving() >= 6
    site.rps = 0.0
    site.pass_time(200, each=10)
    assert (site.state, site.pods()) == ("AtZero", {})
    return site


def one_calls(site: Sleeper) -> int:
    """One request comes at zero; how many replicas were made since."""
    before = len(site.created)
    site.hold("a1", 1)
    site.pass_time(100)
    return len(site.created) - before


@pytest.mark.parametrize(
    "night_s",
    [pytest.param(60.0, id="a minute"), pytest.param(1800.0, id="half an hour"), pytest.param(NIGHT_S, id="a night")],
)
def test_one_caller_after(night_s: float) -> None:
    site = asleep()
    site.pass_time(night_s, each=max(20.0, night_s / 40))

    assert one_calls(site) == 1
    assert site.unanswered == []


def test_an_operator_that_starts_at_zero_or_while_it_wakes_wakes_one_too() -> None:
    site = asleep()
    site.kill()
    site.look()
    before = len(site.created)
    site.hold("a1", 1)
    site.look()
    site.kill()
    site.pass_time(100)

    assert len(site.created) - before == 1
    assert site.unanswered == []


def test_what_an_earlier_version_kept_at_zero_wakes_one_too() -> None:
    site = asleep()
    old = {key: value for key, value in site.stored.items() if key != "atZeroSince"}
    for row in old["ledger"]["rows"]:
        del row["inputs"]["sample"]["rested_s"]
    shown = {**old["shown"], "to": 8, "reason": "Steady", "detail": "as before"}
    site.store({**old, "replicas": 8, "shown": shown})
    site.kill()
    site.pass_time(NIGHT_S, each=600)

    assert one_calls(site) == 1


def test_a_schedule_that_wakes_it_brings_as_many_as_it_asks_for() -> None:
    site = asleep()
    minute = (site.now.minute + 30) % 60
    schedule = {"cron": f"{minute} * * * *", "duration": "10m", "minReplicas": 2}
    site.deployment["spec"]["scaling"]["schedules"] = [schedule]
    before = len(site.created)
    site.pass_time(2000, each=50)

    assert len(site.created) - before == 2


def test_a_load_that_follows_the_wake_is_followed() -> None:
    site = asleep()
    site.pass_time(NIGHT_S, each=600)
    site.rps = site.knee_rps * 5
    one_calls(site)

    assert site.serving() >= 4


def test_the_time_at_zero_is_a_time_without_load_so_seasons_stay_where_they_are() -> None:
    site = asleep()
    assert site.kept is not None
    before = site.kept.ledger
    site.pass_time(NIGHT_S, each=600)
    site.rps = 0.3 * site.knee_rps
    one_calls(site)

    assert site.kept is not None
    after = site.kept.ledger
    passed_s = (after.rows[-1].at - before.rows[-1].at).total_seconds()
    slept = after.memory.history.slots[len(before.memory.history.slots) :]
    assert (after.memory.last_s or 0.0) - (before.memory.last_s or 0.0) == pytest.approx(passed_s, abs=10.0)
    assert len(slept) == pytest.approx(passed_s / SLOT_S, abs=1)
    assert sum(rate < 0.01 * site.knee_rps for rate in slept) >= NIGHT_S / SLOT_S - 1
    assert all(at > (before.memory.last_s or 0.0) + NIGHT_S for at, _ in (*after.memory.needs, *after.memory.held))


def test_the_decisions_around_a_night_are_made_again_from_the_ledger() -> None:
    site = asleep()
    site.pass_time(NIGHT_S, each=600)
    site.rps = 0.3 * site.knee_rps
    one_calls(site)
    site.pass_time(60)

    stored = loaded(site.stored["ledger"])
    assert stored is not None
    assert all(each.same for each in replay(stored)[0])


def test_nothing_is_written_while_it_is_at_zero() -> None:
    site = asleep()
    site.look()
    before = len(site.written)
    site.pass_time(3600, each=300)

    assert len(site.written) == before


def test_at_zero_the_last_decision_says_so_and_after_a_wake_who_woke_it() -> None:
    site = asleep()
    site.look()
    decision = site.deployment["status"]["scaling"]["lastDecision"]
    assert (decision["to"], decision["reason"]) == (0, "Idle")

    site.hold("a1", 1)
    site.pass_time(60)

    decision = site.deployment["status"]["scaling"]["lastDecision"]
    assert (site.state, decision["to"], decision["reason"]) == ("Serving", 1, "Woken")
    assert "1 request waited at zero" in decision["detail"]
