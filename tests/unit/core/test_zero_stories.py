"""To zero and back on a cluster in memory: kills between all writes, two operators, demand that ends, broken images."""

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from builders import START, condition
from modelfleet.api import names
from modelfleet.core.reconcile import plan
from zero_site import SLICE, Site, to_zero

Look = Callable[[Site], None]


def at_zero(**scaling: object) -> Site:
    """A model that has gone to zero."""
    return _gone_to_zero(**scaling) if scaling else copy.deepcopy(_usual())


@cache
def _usual() -> Site:
    return _gone_to_zero()


def _gone_to_zero(**scaling: object) -> Site:
    site = Site(deployment=to_zero(**scaling))
    for _ in range(60):
        site.look()
        site.tick(10)
        if site.state == "AtZero":
            site.look()
            return site
    raise AssertionError(f"it is {site.state}")


def drive(look: Look) -> Site:
    """Up, to zero by idleness, back for sixty requests, and to zero again."""
    site = Site()
    _until(site, look, lambda: site.serving() == 1)
    _until(site, look, lambda: site.state == "AtZero" and not site.pods())
    site.hold("a1", 40)
    site.hold("a2", 20)
    _until(site, look, lambda: site.state == "Serving" and SLICE not in site.objects)
    assert site.serving() == 3
    _until(site, look, lambda: site.state == "AtZero" and not site.pods())
    look(site)
    return site


def _until(site: Site, look: Look, done: Callable[[], bool]) -> None:
    for _ in range(60):
        look(site)
        if done():
            return
        site.tick(10)
    raise AssertionError(f"it is {site.state} with {site.serving()} serving")


def _writes() -> list[int]:
    """How many writes each look of the story makes."""
    counts: list[int] = []
    drive(lambda site: counts.append(len(site.look().effects)))
    return counts


KILLS = [(look, cut) for look, writes in enumerate(_writes()) for cut in range(writes)]


def test_the_story_is_told_without_a_gap_and_wakes_as_many_as_wait() -> None:
    site = drive(lambda site: (site.look(), None)[1])

    assert site.unanswered == []
    assert len(site.created) == 1 + 3


def test_from_zero_until_the_activators_leave_it_is_ready() -> None:
    site = at_zero()
    site.hold("a1", 1)
    said = []
    for _ in range(60):
        ready = condition(site.look().status, "Ready")
        said.append(ready[:2])
        if site.serving() and SLICE not in site.objects:
            break
        site.tick(2)
    assert {status for status, _ in said} == {"True"}, said
    assert [reason for _, reason in said][-1] == "Serving"


@pytest.mark.parametrize("kill", KILLS, ids=lambda kill: f"look {kill[0]}, after {kill[1]} writes")
def test_an_operator_killed_between_any_two_writes_loses_nothing_and_wakes_nothing_twice(kill: tuple[int, int]) -> None:
    looks = 0

    def look(site: Site) -> None:
        nonlocal looks
        if looks == kill[0]:
            site.look(kill[1])
        else:
            site.look()
        looks += 1

    site = drive(look)

    assert site.unanswered == []
    assert len(site.created) == 1 + 3


def test_a_second_look_writes_nothing() -> None:
    site = at_zero()

    assert site.look().effects == ()
    again = plan(site.world())
    assert {key: part for key, part in site.deployment["status"].items() if key != "demand"} == dict(again.status)


def test_two_operators_that_see_the_same_decide_the_same() -> None:
    site = at_zero()
    site.hold("a1", 60)
    world = site.world()

    assert plan(world).effects == plan(copy.deepcopy(world)).effects
    site.look()
    late = [effect for effect in plan(world).effects if getattr(effect, "manifest", {}).get("kind") == "Pod"]
    assert {effect.manifest["metadata"]["name"] for effect in late} <= {key[1] for key in site.objects}  # type: ignore[union-attr]


def test_a_demand_that_ends_before_the_look_wakes_nothing_and_one_that_ends_after_it_wakes_once() -> None:
    site = at_zero()
    site.hold("a1", 1)
    site.hold("a1", 0)
    site.look()
    assert (site.state, len(site.pods())) == ("AtZero", 0)

    site.hold("a1", 1)
    site.look()
    site.hold("a1", 0)
    site.pass_time(120)
    assert site.state == "Serving"
    assert len(site.created) == 2
    site.pass_time(200)
    assert (site.state, len(site.created)) == ("AtZero", 2)


def test_the_entry_of_a_killed_activator_wakes_the_model_once() -> None:
    site = at_zero()
    site.hold("a1", 5)
    site.kill_activator("a1")
    site.look()
    assert site.state == "Waking"
    site.pass_time(600)

    assert (site.state, len(site.created)) == ("AtZero", 2)
    assert site.unanswered == []
    assert site.deployment["status"]["demand"] == [], "the dead one's entry is taken out"


def test_what_was_served_wakes_nothing_again_however_soon_the_model_leaves() -> None:
    site = at_zero(toZero={"after": "20s", "firstCallerWaits": "5m"})
    site.hold("a1", 5)
    site.kill_activator("a1")
    site.pass_time(80)

    assert (site.state, len(site.created)) == ("AtZero", 2)


def test_a_request_that_comes_while_replicas_drain_puts_them_back() -> None:
    site = Site()
    _until(site, lambda site: (site.look(), None)[1], lambda: site.state == "Leaving" and site.serving() == 0)
    (pod,) = site.pods()
    site.hold("a2", 1)
    site.look()

    assert (site.state, site.serving(), list(site.pods())) == ("Serving", 1, [pod])
    assert len(site.created) == 1


def test_no_activator_no_zero_and_the_condition_says_so() -> None:
    site = Site(alive=set())
    site.pass_time(400)

    assert site.serving() == 1
    status, reason, message = condition(site.deployment["status"], "Progressing")
    assert (site.state, status, reason) == ("Leaving", "False", "ActivatorSilent")
    assert "no activator answers" in message
    assert condition(site.deployment["status"], "Ready")[0] == "True"


def test_activators_that_die_at_zero_bring_a_replica() -> None:
    site = at_zero()
    site.kill_activator("a1")
    site.kill_activator("a2")
    site.look()
    assert condition(site.deployment["status"], "Available")[1] == "ActivatorSilent"
    site.pass_time(120)

    assert site.serving() == 1


def test_a_broken_image_is_refused_with_its_reason_and_tried_a_bounded_number_of_times() -> None:
    site = at_zero()
    site.broken_images = {site.settings.worker_image}
    asked = 0
    for second in range(0, 600, 5):
        if site.state == "AtZero" and "refusal" not in site.deployment["status"]["toZero"]:
            site.hold("a1", 1)
            asked += 1
        site.look()
        if "refusal" in site.deployment["status"]["toZero"]:
            site.hold("a1", 0)
        site.tick(5)
        assert len(site.pods()) <= 1, second

    refusal = site.deployment["status"]["toZero"]["refusal"]
    assert refusal["reason"] == "WakeFailed"
    assert "ImageNotPullable" in refusal["message"]
    assert refusal["until"] > site.now.isoformat()
    assert condition(site.deployment["status"], "Available")[:2] == ("False", "WakeFailed")
    assert condition(site.deployment["status"], "Ready")[0] == "False"
    assert (asked, len(site.created)) == (5, 1 + 5)


def test_no_room_is_told_at_once_and_the_wake_goes_on_when_there_is_room() -> None:
    site = at_zero()
    site.room = 0
    site.hold("a1", 1)
    site.look()
    site.look()
    assert site.deployment["status"]["toZero"]["refusal"]["reason"] == "NoRoom"
    assert condition(site.deployment["status"], "Available")[:2] == ("False", "NoRoom")
    site.room = 100
    site.pass_time(60)

    assert site.serving() == 1


@pytest.mark.parametrize(("waiting", "reason"), [(1, "PodsRefused"), (60, None)])
def test_pods_that_are_refused_refuse_what_waits_only_where_no_replica_comes(waiting: int, reason: str | None) -> None:
    site = at_zero()
    site.hold("a1", 1)
    while reason is None and not any("nodeName" in pod["spec"] for pod in site.pods().values()):
        site.look()
        site.tick(2)
    site.hold("a1", waiting)
    told = plan(replace(site.world(), refused="exceeded quota: pods")).status["toZero"]

    assert told["state"] == "Waking"
    assert told.get("refusal", {}).get("reason") == reason


def test_a_schedule_wakes_the_model_and_keeps_it() -> None:
    site = at_zero()
    minute = (START.minute + 20) % 60
    schedule = {"cron": f"{minute} * * * *", "duration": "10m", "minReplicas": 1}
    site.deployment["spec"]["scaling"]["schedules"] = [schedule]
    site.pass_time(1880, each=20)

    assert len(site.created) == 2
    assert site.state == "AtZero"


def _new_args(site: Site) -> None:
    site.deployment["spec"]["engine"]["args"] = {"max-num-seqs": 30}


def _advisory(site: Site) -> None:
    site.deployment["spec"]["scaling"]["mode"] = "Advisory"


def _terms_out(site: Site) -> None:
    del site.deployment["spec"]["scaling"]["toZero"]
    site.deployment["spec"]["scaling"]["minReplicas"] = 2


CHANGES = [
    pytest.param(_new_args, id="another plan"),
    pytest.param(_advisory, id="another mode"),
    pytest.param(_terms_out, id="no terms and two replicas"),
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("waiting", [0, 1])
def test_a_spec_that_changes_at_zero_or_while_it_wakes_leaves_no_gap(
    change: Callable[[Site], None], waiting: int
) -> None:
    site = at_zero()
    if waiting:
        site.hold("a1", waiting)
        site.look()
        site.tick(5)
    change(site)
    site.deployment["metadata"]["generation"] = 2
    site.hold("a2", 1)
    site.pass_time(100)

    assert site.serving() >= 1
    assert SLICE not in site.objects
    assert site.held == {}
    assert site.unanswered == []


def test_a_paused_rollout_wakes_with_the_newest_plan() -> None:
    site = at_zero()
    old = site.created[0]
    _new_args(site)
    site.deployment["spec"]["rollout"] = {"paused": True}
    site.look()
    site.hold("a1", 1)
    site.pass_time(60)

    assert (site.serving(), site.held, site.unanswered) == (1, {}, [])
    assert site.created[-1] != old


def test_to_zero_by_hand_refuses_and_wakes_by_hand() -> None:
    site = Site(deployment=to_zero(mode="Manual", replicas=1))
    site.pass_time(300)
    assert site.serving() == 1
    site.deployment["spec"]["scaling"]["replicas"] = 0
    site.pass_time(60)
    assert (site.state, len(site.pods())) == ("AtZero", 0)
    assert site.deployment["status"]["toZero"]["refusal"]["reason"] == "ZeroByHand"
    site.hold("a1", 3)
    site.pass_time(60)
    assert site.pods() == {}
    site.deployment["spec"]["scaling"]["replicas"] = 2
    site.pass_time(60)

    assert site.serving() == 2


def test_without_the_terms_nothing_of_it_stays() -> None:
    site = at_zero()
    site.deployment["spec"]["scaling"] |= {"minReplicas": 1, "toZero": None}
    site.pass_time(120)

    assert site.serving() == 1
    assert SLICE not in site.objects
    assert "toZero" not in site.deployment["status"]
    assert site.objects["ConfigMap", names.state("chat")]["data"].get(names.ZERO_KEY) == "{}"


def test_a_class_that_may_not_return_refuses_what_waits_at_zero() -> None:
    site = at_zero()
    site.classes["cpu"]["spec"]["supplies"] = [{"name": "lucky", "canBeReacquired": False}]
    site.hold("a1", 1)
    site.look()

    assert site.deployment["status"]["toZero"]["refusal"]["reason"] == "CapacityMayNotReturn"
    assert condition(site.deployment["status"], "Ready")[:2] == ("False", "CapacityMayNotReturn")
