"""Sessions that are held through a gap, over the stand-in's cache: what stays, what it costs, and what ends it."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from modelfleet_worker.promise import Hold, PromiseError, parse_promise
from worker_process import Worker, plan_of, running_worker, stand_in

OBJECTIVE = {"name": "chat", "ttft_s": 1.0, "tpot_s": 1.0}
HOLD = {"header": "X-Tier", "values": ["gold"], "maxGap_s": 60, "maxShareOfCache": 0.5}
CACHE_TOKENS, PROMPT_TOKENS, ANSWER_TOKENS = 2048, 320, 48
OTHER_TOKENS, OTHERS = 160, 20
"""Together one and a half times the cache."""


def promise(**hold: Any) -> str:
    return json.dumps({"digest": "0123abcd", "objectives": [OBJECTIVE], "hold": {**HOLD, **hold}})


@asynccontextmanager
async def holding(folder: Path, *args: str, **hold: Any) -> AsyncIterator[Worker]:
    """A worker with a small cache that holds sessions of tier gold."""
    (folder / "worker").mkdir()
    (folder / "worker" / "promise.json").write_text(promise(**hold))
    plan = plan_of(stand_in(folder, kv_tokens=str(CACHE_TOKENS), token_s="0.002"))
    plan["engine"]["args"] = list(args)
    async with running_worker(folder, plan) as worker:
        await worker.until_ready()
        yield worker


async def ask(worker: Worker, prompt: str, tokens: int, tier: str = "gold") -> str:
    """What the engine answers."""
    body = {"model": "tiny", "prompt": prompt, "max_tokens": tokens}
    answer = await worker.api("/v1/completions", body, **{"x-tier": tier})
    assert answer.status == 200, answer.text
    return str(answer.json["choices"][0]["text"])


async def hits(worker: Worker) -> float:
    """Prompt tokens of clients' requests that the engine found in its cache so far."""
    page = (await worker.status("/metrics/engine")).text
    found = sum(float(one) for one in re.findall(r"^vllm:prefix_cache_hits_total\S* (\S+)$", page, re.MULTILINE))
    own = await worker.metrics()
    return found - (
        own["modelfleet_worker_hold_touched_tokens_total"] - own["modelfleet_worker_hold_computed_tokens_total"]
    )


async def found_of_the_next_turn(worker: Worker, tier: str) -> float:
    """A turn of a session, a gap in which others fill the cache, and how much of the next turn's prompt is cached."""
    prompt = " ".join(f"{tier}{number}" for number in range(PROMPT_TOKENS))
    history = f"{prompt} {await ask(worker, prompt, ANSWER_TOKENS, tier)}"
    for other in range(OTHERS):
        await ask(worker, " ".join(f"{tier}-{other}-{number}" for number in range(OTHER_TOKENS)), 1, "none")
        await asyncio.sleep(0.1)  # slower than the cache would be filled between two looks
    before = await hits(worker)
    await ask(worker, f"{history} and then", 1, tier)
    return await hits(worker) - before


async def test_a_held_session_finds_prompt_and_answer_cached_where_another_finds_nothing(tmp_path: Path) -> None:
    async with holding(tmp_path) as worker:
        assert await found_of_the_next_turn(worker, "silver") == 0
        assert await found_of_the_next_turn(worker, "gold") >= PROMPT_TOKENS + ANSWER_TOKENS - 16
        page = await worker.metrics()
        touched, computed = (page[f"modelfleet_worker_hold_{kind}_tokens_total"] for kind in ("touched", "computed"))
        assert page["modelfleet_worker_hold_touches_total"] >= 1
        assert computed <= 0.05 * touched, "a touch computes less than a block and a token"
        assert page['modelfleet_worker_hold_ended_total{why="returned"}'] == 1
        assert page['modelfleet_worker_requests_total{outcome="completed"}'] == 2 * (OTHERS + 2), (
            "touches are no requests"
        )


async def test_a_session_is_let_go_when_its_gap_is_over(tmp_path: Path) -> None:
    async with holding(tmp_path, maxGap_s=0.2) as worker:
        await ask(worker, "hello there", 4)
        await worker.until(lambda: _ended(worker, "deadline"))
        page = await worker.metrics()
        assert (page["modelfleet_worker_held_sessions"], page["modelfleet_worker_held_tokens"]) == (0, 0)


async def test_a_session_above_the_share_of_the_cache_is_not_held(tmp_path: Path) -> None:
    async with holding(tmp_path, maxShareOfCache=0.01) as worker:
        await ask(worker, " ".join(str(number) for number in range(PROMPT_TOKENS)), 4)
        await worker.until(lambda: _ended(worker, "no_room"))
        assert (await worker.metrics())["modelfleet_worker_held_sessions"] == 0


async def test_sessions_are_let_go_when_requests_wait(tmp_path: Path) -> None:
    async with holding(tmp_path, "--max-num-seqs=1") as worker:
        await ask(worker, "hello there", 4)
        await worker.until(lambda: _holds_one(worker))  # it is counted a moment after the answer
        long = asyncio.gather(*(ask(worker, f"{number} waits", 600, "none") for number in range(4)))
        await worker.until(lambda: _ended(worker, "pressure"))
        long.cancel()  # what they would answer is nobody's business here


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param({"maxShareOfCache": 1}, "maxShareOfCache must be a number between 0 and 1", id="the whole cache"),
        pytest.param({"maxGap_s": 0}, "maxGap_s must be a number of seconds above 0", id="no gap"),
        pytest.param({"values": "gold"}, "values must be a list of texts", id="a text for a list"),
        pytest.param({"header": None}, "header is missing", id="no header"),
    ],
)
def test_a_hold_is_refused_with(change: dict[str, Any], words: str) -> None:
    with pytest.raises(PromiseError) as said:
        parse_promise(promise(**change))
    assert words in str(said.value)


def test_a_header_s_name_is_taken_in_lower_case() -> None:
    assert parse_promise(promise()).hold == Hold(
        header="x-tier", values=frozenset({"gold"}), max_gap_s=60.0, max_share_of_cache=0.5
    )


async def _ended(worker: Worker, why: str) -> bool:
    return (await worker.metrics())[f'modelfleet_worker_hold_ended_total{{why="{why}"}}'] >= 1


async def _holds_one(worker: Worker) -> bool:
    return (await worker.metrics())["modelfleet_worker_held_sessions"] == 1
