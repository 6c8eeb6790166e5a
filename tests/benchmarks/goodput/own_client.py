"""A small client of our own: to find limits before a run, and to leave and be refused, which the referees do not."""

import asyncio
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp

from worker_process import NAME

_IDLE_S = 2.0  # the server closes idle connections after 5 s, and may do so as a request is sent


@dataclass
class Seen:
    """One request as its client saw it. `ending`: finished, refused, aborted (by us), failed."""

    id: str
    ending: str
    ttft_s: float = 0.0
    tpot_s: float = 0.0
    tokens: int = 0


@dataclass(frozen=True)
class Wish:
    """A request: when it is sent, in seconds; how long it is; after how many tokens we leave (0: never)."""

    id: str
    at_s: float
    prompt_tokens: int
    tokens: int
    leave_after: int = 0


def wishes(prefix: str, count: int, rate_rps: float, *, seed: int) -> list[Wish]:
    """Poisson arrivals with lengths as the referees draw them."""
    rng, at_s, found = random.Random(seed), 0.0, []
    for number in range(count):
        at_s += rng.expovariate(rate_rps)
        found.append(Wish(f"{prefix}{number}", at_s, rng.randint(360, 3240), rng.randint(8, 72)))
    return found


async def send_all(port: int, asked: Sequence[Wish]) -> list[Seen]:
    """Sends each at its time."""
    timeout = aiohttp.ClientTimeout(total=600)
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_S)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}", timeout=timeout, connector=connector) as session:
        start_s = time.monotonic()

        async def later(wish: Wish) -> Seen:
            await asyncio.sleep(wish.at_s - (time.monotonic() - start_s))
            return await _send(session, wish)

        return list(await asyncio.gather(*map(later, asked)))


async def _send(session: aiohttp.ClientSession, wish: Wish) -> Seen:
    prompt = [random.Random(wish.id).randint(10, 1000) for _ in range(wish.prompt_tokens)]
    body = {"model": NAME, "prompt": prompt, "max_tokens": wish.tokens, "ignore_eos": True, "stream": True}
    seen, sent_s, first_s, last_s = Seen(wish.id, "failed"), time.monotonic(), 0.0, 0.0
    async with session.post("/v1/completions", json=body, headers={"x-request-id": wish.id}) as answer:
        if answer.status == 503:
            seen.ending = "refused"
            return seen
        async for line in answer.content:
            if b'"error"' in line:
                seen.ending = "refused" if b"503" in line else "failed"
                return seen
            if not line.startswith(b"data: {") or not json.loads(line[6:]).get("choices"):
                continue
            last_s = time.monotonic()
            first_s = first_s or last_s
            seen.tokens += 1
            if wish.leave_after and seen.tokens >= wish.leave_after:
                seen.ending = "aborted"
                answer.close()
                return seen
    seen.ending = "finished"
    seen.ttft_s = first_s - sent_s
    seen.tpot_s = (last_s - first_s) / max(wish.tokens - 1, 1)
    return seen
