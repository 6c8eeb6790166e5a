"""The fleet's tick, and the quotas that growing looks at: what is asked of the API server, and when."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from builders import START
from modelfleet.controller.autoscaler import Autoscaler
from modelfleet.controller.cluster import ApiError
from modelfleet.controller.quotas import FRESH_S, Quotas
from modelfleet.controller.triggers import Key
from modelfleet.core.active import Scaling
from modelfleet.core.scaling.samples import Samples
from scaling_worlds import Sampled, sampled

CHAT, OTHER = Key("team", "chat"), Key("team", "other")


class Woken:
    """The keys that are asked for."""

    def __init__(self) -> None:
        self.keys: list[Key] = []

    def add(self, key: Key, *, behind: bool = False) -> None:
        self.keys.append(key)


def _scaling(fleet: Sampled) -> Scaling:
    assert fleet.scaling is not None
    return fleet.scaling


def _ticking(fleet: Sampled, woken: Woken) -> Autoscaler:
    numbers = Autoscaler(lambda _key: fleet.samples(), woken, lambda: START)
    numbers.hold(CHAT, _scaling(fleet))
    return numbers


async def _tick(numbers: Autoscaler, fleet: Sampled, rps: float) -> None:
    fleet.rps["interactive"] = rps
    fleet.at_s += 5.0
    fleet._work()
    await numbers.tick()


async def test_a_reconcile_is_asked_for_only_where_the_number_changes() -> None:
    fleet, woken = sampled().run(60, 1.0), Woken()
    numbers = _ticking(fleet, woken)

    for _ in range(10):
        await _tick(numbers, fleet, 1.0)
    calm = list(woken.keys)
    for _ in range(10):
        await _tick(numbers, fleet, fleet.knee_rps * 3)

    kept = numbers.view(CHAT)
    assert calm == []
    assert kept is not None
    assert kept.replicas >= 3
    assert set(woken.keys) == {CHAT}
    assert len(woken.keys) < 10


async def test_a_bug_in_one_model_is_left_to_its_reconcile_and_the_others_go_on() -> None:
    fleet, woken = sampled().run(60, 1.0), Woken()

    def samples(key: Key) -> Samples:
        if key == OTHER:
            raise ZeroDivisionError("a bug")
        return fleet.samples()

    numbers = Autoscaler(samples, woken, lambda: START)
    scaling = _scaling(fleet)
    numbers.hold(OTHER, replace(scaling, case=replace(scaling.case, key="team/other")))
    numbers.hold(CHAT, scaling)

    await _tick(numbers, fleet, 1.0)
    await _tick(numbers, fleet, 1.0)

    assert woken.keys == [OTHER]
    assert numbers.keys == (CHAT,)


async def test_what_samples_do_not_decide_is_forgotten() -> None:
    fleet, woken = sampled().run(60, 1.0), Woken()
    numbers = _ticking(fleet, woken)

    numbers.hold(CHAT, None)

    assert numbers.view(CHAT) is None
    assert not numbers.decide(CHAT)


class Listing:
    """A cluster that answers lists of quotas, or refuses them."""

    def __init__(self) -> None:
        self.asked, self.refuses = 0, False

    async def list(self, *_: Any) -> tuple[dict[str, Any], ...]:
        self.asked += 1
        if self.refuses:
            raise ApiError("forbidden", status=403)
        return ({"metadata": {"name": "team"}},)


@pytest.mark.looptime(start=0)
async def test_quotas_are_listed_once_in_a_while_and_anew_after_a_write() -> None:
    cluster = Listing()
    quotas = Quotas(cluster)  # type: ignore[arg-type]
    found = [await quotas.of("team", {}) for _ in range(3)]
    once = cluster.asked
    quotas.forget("team")
    await quotas.of("team", {})
    await asyncio.sleep(FRESH_S)
    await quotas.of("team", {})

    assert found[0] == found[2] == ({"metadata": {"name": "team"}},)
    assert (once, cluster.asked) == (1, 3)


@pytest.mark.parametrize("refuses", [True, False])
async def test_quotas_that_cannot_be_read_stop_nothing(refuses: bool) -> None:
    cluster = Listing()
    cluster.refuses = refuses

    assert len(await Quotas(cluster).of("team", {})) == (0 if refuses else 1)  # type: ignore[arg-type]


async def test_in_mode_manual_no_quota_is_read() -> None:
    cluster = Listing()

    assert await Quotas(cluster).of("team", {"spec": {"scaling": {"mode": "Manual"}}}) == ()  # type: ignore[arg-type]
    assert cluster.asked == 0
