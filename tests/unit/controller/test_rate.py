"""The client's rate limit, on virtual time."""

import asyncio

import pytest

from modelfleet.controller.rate import Rate

pytestmark = pytest.mark.looptime(start=100)


async def sent(rate: Rate, count: int) -> list[float]:
    """When each of `count` requests that came at once was sent, counted from now."""
    loop = asyncio.get_running_loop()
    began = loop.time()

    async def send() -> float:
        await rate.wait()
        return round(loop.time() - began, 3)

    return await asyncio.gather(*(send() for _ in range(count)))


async def test_a_burst_passes_at_once_and_the_rest_in_order_at_the_rate():
    assert await sent(Rate(per_s=10, burst=3), 6) == [0, 0, 0, 0.1, 0.2, 0.3]


async def test_a_pause_fills_the_bucket_up_to_the_burst_and_no_further():
    rate = Rate(per_s=10, burst=3)
    await sent(rate, 3)
    await asyncio.sleep(60)
    assert await sent(rate, 5) == [0, 0, 0, 0.1, 0.2]


async def test_a_request_that_gave_up_waiting_costs_what_it_reserved_and_no_more():
    rate = Rate(per_s=10, burst=1)
    await rate.wait()
    waiting = asyncio.create_task(rate.wait())
    await asyncio.sleep(0)
    waiting.cancel()
    assert await sent(rate, 1) == [0.2]
