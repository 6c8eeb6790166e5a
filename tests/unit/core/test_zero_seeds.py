"""Seeded trouble around zero: callers, deaths of activators and operators, mute workers. It ends well."""

import random

import pytest

from zero_site import Site

SEEDS = range(8)
STEPS = 50


def trouble(site: Site, dice: random.Random) -> None:
    """One thing happens. One activator at least lives on, as two or more replicas of it are for."""
    pods = list(site.pods().values())
    act = dice.choice(["call", "call", "leave", "die", "live", "mute", "hear", "traffic", "answer", "nothing"])
    if act == "call" and site.alive:
        site.hold(dice.choice(sorted(site.alive)), dice.randint(1, 70))
    elif act == "leave" and site.held:
        site.hold(dice.choice(sorted(site.held)), 0)
    elif act == "die" and len(site.alive) > 1:
        site.kill_activator(dice.choice(sorted(site.alive)))
    elif act == "live":
        site.alive |= {"a1", "a2"}
    elif act == "mute":
        site.mute = {pod["metadata"]["uid"] for pod in pods if dice.random() < 0.5}
    elif act == "hear":
        site.mute = set()
    elif act == "traffic" and pods:
        uid = dice.choice(pods)["metadata"]["uid"]
        site.arrived[uid] = site.arrived.get(uid, 0) + 1
        site.busy[uid] = dice.randint(0, 2)
    elif act == "answer":
        site.busy = {}


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: f"seed {seed}")
def test_whatever_happens_something_answers_and_at_last_nothing_runs(seed: int) -> None:
    dice, site = random.Random(seed), Site()
    for _ in range(STEPS):
        trouble(site, dice)
        writes = site.look(dice.randint(0, 3) if dice.random() < 0.2 else None).effects
        assert len(site.pods()) <= 4 + sum("deletionTimestamp" in p["metadata"] for p in site.pods().values()), writes
        site.tick(dice.choice([1.0, 5.0, 20.0]))
        if not site.alive:
            site.alive = {"a1"}

    site.alive, site.mute, site.busy = {"a1", "a2"}, set(), {}
    for activator in list(site.held):
        site.hold(activator, 0)
    site.pass_time(900, each=15)
    created = len(site.created)
    assert (site.state, len(site.pods())) == ("AtZero", 0)
    site.pass_time(300, each=30)
    assert len(site.created) == created, "nothing wakes it again"
    site.hold("a1", 1)
    site.pass_time(40)
    assert site.serving() == 1
    assert site.held == {}
    assert site.unanswered == []
