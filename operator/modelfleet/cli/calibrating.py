"""Drives one replica step by step and reads what it did. I/O: requests to the replica, GETs of its page."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from modelfleet.api.modeldeployment import ModelDeployment
from modelfleet.cli.open_loop import Answer, Drawn, Replica, draw, drive
from modelfleet.cli.worker_page import PageUnreadError, WorkerPage, read_page
from modelfleet.core.calibration import Goal, Step, next_rate
from modelfleet.core.perf.cells import Cells, Light, since
from modelfleet.core.perf.workload import Lengths

_WARM_UP = 3
"""Requests before anything counts: an engine makes its kernels ready with the first ones."""
_REQUESTS = 100
"""A step is made longer, up to _LONGER times, so that it has about so many."""
_LONGER = 4
_SETTLE_S = 0.3
"""Until the worker's counts have what a client has seen the end of."""
_LOOK_S = 2.0
"""How often it is looked whether others' requests come."""
_LIGHT = 2.0
"""With at most so many in flight requests hardly wait for each other."""


class CalibrateError(Exception):
    """The replica cannot be measured; the message is a sentence for the user."""


class MixedError(Exception):
    """Somebody else's requests came to the replica; the message is a sentence for the user."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """What is driven and how. `watch_s`: how long the replica must have been without requests before; `alone`: others'
    requests end the run. `told` hears of the progress: the step's number, its rate, and the part of it that is done."""

    deployment: ModelDeployment
    replica: Replica
    page_url: str
    goal: Goal
    step_s: float
    limit_s: float
    watch_s: float
    alone: bool
    seed: int
    told: Callable[[int, float, float], None] = lambda _number, _rate, _part: None


@dataclass(kw_only=True)
class Measured:
    """What came of it. `cells` are the steps that the engine took meanwhile; `whole`: the time sufficed."""

    steps: list[Step] = field(default_factory=list)
    cells: Cells = field(default_factory=dict)
    light: list[Light] = field(default_factory=list)
    kv_tokens: int | None = None
    lengths: Lengths = field(default_factory=lambda: Lengths(input_tokens=1.0, output_tokens=1.0))
    whole: bool = True
    failures: list[str] = field(default_factory=list)


async def measure(run: Run) -> Measured:
    """All steps, within `limit_s`. Raises CalibrateError, MixedError and MissingExtraError."""
    loop = asyncio.get_running_loop()
    ends_s = loop.time() + run.limit_s
    await _is_quiet(run)
    await _warm_up(run)
    await asyncio.sleep(_SETTLE_S)
    first = page = await _page(run)
    found, drawn = Measured(kv_tokens=first.reading.kv_total_tokens), []
    while (rate_rps := next_rate(found.steps, run.goal)) is not None:
        duration_s = min(max(_REQUESTS / rate_rps, run.step_s), _LONGER * run.step_s)
        if loop.time() + duration_s > ends_s and found.steps:
            found.whole = False
            break
        number = len(found.steps) + 1
        requests = draw(run.deployment, rate_rps, duration_s, run.seed + number)
        count = max(len(requests), 1)
        run.told(number, rate_rps, 0.0)
        answers = await _driven(run, page, requests, _telling(run, number, rate_rps, count))
        await asyncio.sleep(_SETTLE_S)
        before, page = page, await _page(run)
        _check_alone(run, before, page, len(answers))
        step = _step(rate_rps, duration_s, answers, (before, page))
        found.steps.append(step)
        found.failures += [each.failed for each in answers if each.failed]
        drawn += answers
        if step.ttft_s is not None and step.running <= _LIGHT:
            found.light.append(Light(running=max(step.running, 0.01), ttft_s=step.ttft_s))
        run.told(number, rate_rps, 1.0)
    found.cells, found.lengths = since(first.steps, page.steps), _lengths(drawn, len(run.replica.prefix))
    return found


async def _driven(run: Run, before: WorkerPage, requests: Sequence[Drawn], told: Callable[[int], None]) -> list[Answer]:
    """The answers. Raises MixedError soon after others' requests came, with nothing of ours left in the replica."""
    sent = 0

    def tell(count: int) -> None:
        nonlocal sent
        sent = count
        told(count)

    async def watch() -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            page = await _page(run)
            _check_alone(run, before, page, sent)

    driving, watching = asyncio.create_task(drive(run.replica, requests, tell)), asyncio.create_task(watch())
    try:
        await asyncio.wait((driving, watching), return_when=asyncio.FIRST_COMPLETED)
        if not driving.done():
            watching.result()
        return await driving
    finally:
        for task in (driving, watching):
            task.cancel()
        await asyncio.gather(driving, watching, return_exceptions=True)


def _telling(run: Run, number: int, rate_rps: float, count: int) -> Callable[[int], None]:
    return lambda sent: run.told(number, rate_rps, sent / count)


async def _page(run: Run) -> WorkerPage:
    try:
        return await read_page(run.page_url)
    except PageUnreadError as error:
        raise CalibrateError(f"the worker's page at {run.page_url} {error}") from error


async def _is_quiet(run: Run) -> None:
    """Raises MixedError where the replica has requests of others."""
    before = await _page(run)
    if before.reading.state not in ("serving", ""):
        raise CalibrateError(f"the replica is {before.reading.state}; wait until it serves")
    await asyncio.sleep(run.watch_s)
    after = await _page(run)
    came = (after.arrivals or 0) - (before.arrivals or 0)
    held = max(before.reading.in_flight or 0, after.reading.in_flight or 0)
    if run.alone and (came or held):
        raise MixedError(
            f"the replica serves others: {came} requests came within {run.watch_s:g} s and up to {held} were in flight;"
            " they would wait behind the load of a calibration: take a replica without traffic, such as one of a"
            " ModelDeployment of its own"
        )


def _check_alone(run: Run, before: WorkerPage, after: WorkerPage, sent: int) -> None:
    if before.arrivals is None or after.arrivals is None or not run.alone:
        return
    others = after.arrivals - before.arrivals - sent
    if others > 0:
        raise MixedError(
            f"{others} requests of others came to the replica meanwhile, so it was left alone at once; nothing is"
            " written: calibrate one without traffic"
        )


async def _warm_up(run: Run) -> None:
    """Some requests, one after the other. Raises CalibrateError where none is answered."""
    requests = draw(run.deployment, 1.0, 60.0, run.seed)[:_WARM_UP]
    for each in requests:
        (answer,) = await drive(run.replica, [replace(each, at_s=0.0)], lambda _: None)
        if answer.failed:
            raise CalibrateError(f"the replica at {run.replica.url} does not answer: {answer.failed}")


def _step(rate_rps: float, duration_s: float, answers: Sequence[Answer], pages: tuple[WorkerPage, WorkerPage]) -> Step:
    """The worker's own count and clock where it has a promise; else the client's."""
    before, after = pages
    told = after.since(before)
    answered = [each for each in answers if not each.failed]
    ttft_s = [each.ttft_s for each in answered if each.ttft_s is not None]
    tpot_s = [each.tpot_s for each in answered if each.tpot_s is not None]
    own = told.ended >= len(answered) > 0
    return Step(
        rate_rps=rate_rps,
        counted=told.ended if own else len(answers),
        good=told.good if own else sum(each.good for each in answers),
        ttft_s=(after.mean_ttft_s(before) if own else None) or _mean(ttft_s),
        tpot_s=_mean(tpot_s),
        running=sum(each.whole_s for each in answered) / duration_s,
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _lengths(answers: Sequence[Answer], prefix_tokens: int) -> Lengths:
    """The mean request that was sent."""
    count = max(len(answers), 1)
    return Lengths(
        input_tokens=max(1.0, sum(each.drawn.prompt_tokens for each in answers) / count),
        output_tokens=max(1.0, sum(each.drawn.answer_tokens for each in answers) / count),
        shared_prefix_tokens=float(prefix_tokens),
    )
