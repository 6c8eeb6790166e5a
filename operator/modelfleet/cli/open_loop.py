"""An open-loop load on one replica: requests of the declared lengths at Poisson moments, streamed, timed by the client.

Prompts are lists of token ids, so that their lengths are exact, and drawn anew for each request, so that nothing but
the declared common prefix is found in the engine's cache.
"""

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import exp, log
from random import Random
from typing import TYPE_CHECKING, Any

from modelfleet.api.modeldeployment import ModelDeployment, Objective
from modelfleet.cli.yaml_io import MissingExtraError

if TYPE_CHECKING:
    import aiohttp

_Z95 = 1.6449
_IDS = (10, 250)
"""Token ids that every vocabulary has; the lowest ones mean something to some."""
_PATIENCE_S = 120.0
"""After the last arrival of a step: what is not answered then has failed."""


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """One request to send, `at_s` after the step's beginning."""

    at_s: float
    objective: Objective
    prompt_tokens: int
    answer_tokens: int
    seed: int


@dataclass(kw_only=True)
class Answer:
    """What came of it; times are None where there was none. `failed` says why, empty where it did not."""

    drawn: Drawn
    ttft_s: float | None = None
    tpot_s: float | None = None
    whole_s: float = 0.0
    failed: str = "it was not answered"

    @property
    def good(self) -> bool:
        """Inside both times of its objective."""
        if self.failed or self.ttft_s is None or self.tpot_s is None:
            return False
        return self.ttft_s <= self.drawn.objective.ttft.seconds and self.tpot_s <= self.drawn.objective.tpot.seconds


@dataclass(frozen=True, kw_only=True)
class Replica:
    """Where requests go: the base address, and the name that the model is served by."""

    url: str
    served_name: str
    prefix: tuple[int, ...] = field(default=())
    """The common prefix of all prompts."""


def draw(deployment: ModelDeployment, rate_rps: float, duration_s: float, seed: int) -> list[Drawn]:
    """The requests of one step, one at least. Objectives come by their loads."""
    random = Random(seed)
    objectives = deployment.spec.objectives
    weights = [_load(each) for each in objectives]
    found: list[Drawn] = []
    at_s = random.expovariate(rate_rps)
    while at_s < duration_s or not found:
        (objective,) = random.choices(objectives, weights)
        found.append(_drawn(deployment, objective, min(at_s, duration_s), random))
        at_s += random.expovariate(rate_rps)
    return found


def _load(objective: Objective) -> float:
    load = objective.load
    return float(load.requests_per_second.per_second if load.requests_per_second else load.concurrency or 1)


def _drawn(deployment: ModelDeployment, objective: Objective, at_s: float, random: Random) -> Drawn:
    lengths, limit = objective.lengths, deployment.spec.model.max_context_tokens or 1 << 20
    prompts, answers = lengths.input_tokens, lengths.output_tokens
    prompt = max(1, min(_length(prompts.p50, prompts.p95, random), prompts.max or limit, limit - 1))
    return Drawn(
        at_s=at_s,
        objective=objective,
        prompt_tokens=prompt,
        answer_tokens=max(1, min(_length(answers.p50, answers.p95, random), limit - prompt)),
        seed=random.getrandbits(32),
    )


def _length(p50: int, p95: int, random: Random) -> int:
    """Log-normal, as the planner takes lengths."""
    return round(p50 * exp(random.gauss(0.0, 1.0) * log(max(p95, p50) / p50) / _Z95))


def prefix_of(deployment: ModelDeployment, seed: int) -> tuple[int, ...]:
    """The common prefix, as long as the shortest that an objective declares."""
    random = Random(seed)
    tokens = min(each.lengths.shared_prefix_tokens or 0 for each in deployment.spec.objectives)
    return tuple(random.randrange(*_IDS) for _ in range(tokens))


async def drive(replica: Replica, requests: Sequence[Drawn], told: Callable[[int], None]) -> list[Answer]:
    """Sends each request at its moment, whatever became of those before it; `told` has how many were sent. All are
    answered at the end, or have failed. Raises MissingExtraError."""
    try:
        import aiohttp
    except ImportError as error:
        raise MissingExtraError("aiohttp") from error
    answers = [Answer(drawn=each) for each in requests]
    loop = asyncio.get_running_loop()
    begun_s = loop.time()
    connector, timeout = aiohttp.TCPConnector(limit=0), aiohttp.ClientTimeout(total=None, sock_connect=10.0)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=False) as session:
        tasks: list[asyncio.Task[None]] = []
        try:
            for number, answer in enumerate(answers):
                await asyncio.sleep(max(0.0, begun_s + answer.drawn.at_s - loop.time()))
                told(number + 1)
                tasks.append(asyncio.create_task(_ask(session, replica, answer)))
            if tasks:
                await asyncio.wait(tasks, timeout=_PATIENCE_S)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return answers


async def _ask(session: "aiohttp.ClientSession", replica: Replica, answer: Answer) -> None:
    import aiohttp

    loop = asyncio.get_running_loop()
    sent_s = loop.time()
    headers = {"x-modelfleet-objective": str(answer.drawn.objective.name)}
    try:
        async with session.post(
            f"{replica.url}/v1/completions", json=_body(replica, answer.drawn), headers=headers
        ) as response:
            if response.status != 200:
                answer.failed = f"status {response.status}: {(await response.text())[:200]}"
                return
            first_s, last_s, tokens, failed = None, sent_s, 0, "the stream ended before the answer did"
            async for line in response.content:
                if not line.startswith(b"data: "):
                    continue
                if line.strip() == b"data: [DONE]":
                    failed = ""
                    continue
                event = json.loads(line[6:])
                if event.get("error"):
                    failed = str(event["error"])[:200]
                    break
                if event.get("choices"):
                    last_s = loop.time()
                    first_s = first_s or last_s
                tokens = (event.get("usage") or {}).get("completion_tokens", tokens)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        answer.failed = f"{type(error).__name__}: {error}"[:200]
        return
    answer.failed = failed if first_s is not None else failed or "it has no token"
    if first_s is not None:
        answer.ttft_s, answer.whole_s = first_s - sent_s, last_s - sent_s
        answer.tpot_s = (last_s - first_s) / (tokens - 1) if tokens > 1 else 0.0


def _body(replica: Replica, drawn: Drawn) -> dict[str, Any]:
    common = replica.prefix[: drawn.prompt_tokens - 1]
    own = list(_ids(drawn.prompt_tokens - len(common), drawn.seed))
    return {
        "model": replica.served_name,
        "prompt": [*common, *own],
        "max_tokens": drawn.answer_tokens,
        "min_tokens": drawn.answer_tokens,
        "ignore_eos": True,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def _ids(count: int, seed: int) -> Iterator[int]:
    random = Random(seed)
    for _ in range(count):
        yield random.randrange(*_IDS)
