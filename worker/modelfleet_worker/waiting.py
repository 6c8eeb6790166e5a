"""Waiting for whichever of several things comes first, and for a call that may block for good."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def first(timeout_s: float | None, *work: Coroutine[Any, Any, Any]) -> int | None:
    """The index of what ended first, the lowest of several; None after `timeout_s`. Raises what that one raised.

    All others are cancelled and have ended when this returns.
    """
    tasks = [asyncio.ensure_future(one) for one in work]
    try:
        done, _ = await asyncio.wait(tasks, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for index, task in enumerate(tasks):
        if task in done:
            task.result()
            return index
    return None


async def in_thread(function: Callable[..., T], *args: Any) -> T:
    """What `function(*args)` returns or raises.

    In a daemon thread of its own: unlike the loop's executor it is not waited for at exit, so a call that hangs in a
    volume keeps no worker from ending.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def tell(settle: Callable[[Any], None], value: Any) -> None:
        if not answer.done():  # it was cancelled meanwhile
            settle(value)

    def run() -> None:
        try:
            value = function(*args)
        except BaseException as error:
            outcome: tuple[Callable[[Any], None], Any] = (answer.set_exception, error)
        else:
            outcome = (answer.set_result, value)
        if not loop.is_closed():
            loop.call_soon_threadsafe(tell, *outcome)

    threading.Thread(target=run, daemon=True).start()
    return await answer
