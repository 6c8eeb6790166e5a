"""How soon a watch that ended begins again, on virtual time."""

import asyncio

import pytest

from modelfleet.controller.watch import Pace

pytestmark = pytest.mark.looptime(start=100)


async def starts(pace: Pace, count: int, lasts_s: float = 0.0) -> list[float]:
    """When `count` watches begin, each `lasts_s` long, counted from now."""
    loop = asyncio.get_running_loop()
    began, times = loop.time(), []
    for _ in range(count):
        await pace.wait("/pods")
        times.append(round(loop.time() - began, 3))
        await asyncio.sleep(lasts_s)
    return times


async def test_watches_that_break_at_once_begin_ever_more_seldom_up_to_every_8_s():
    assert await starts(Pace(), 8) == [0, 0.5, 1.5, 3.5, 7.5, 15.5, 23.5, 31.5]


async def test_a_watch_that_lasted_begins_again_at_once():
    assert await starts(Pace(), 4, lasts_s=30) == [0, 30, 60, 90]


async def test_after_a_watch_that_lasted_the_pace_begins_anew():
    pace = Pace()
    await starts(pace, 5)
    await asyncio.sleep(30)
    assert await starts(pace, 3) == [0, 0.5, 1.5]


async def test_one_kind_s_watches_do_not_slow_another_s():
    pace = Pace()
    await starts(pace, 5)
    began = asyncio.get_running_loop().time()
    await pace.wait("/services")
    assert asyncio.get_running_loop().time() == began
