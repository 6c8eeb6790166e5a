"""What the worker relies on in an engine: the same stories on the stand-in and the real vLLM, one start each."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from goodput_contract import STRICT, judges_requests

from modelfleet_worker.engine_numbers import WORK, numbers
from modelfleet_worker.start_outlook import Phase
from stand_in_engine import WORKER_TITLE
from worker_process import (
    EngineUnderTest,
    Worker,
    living,
    own_shared_memory,
    pid_titled,
    plan_of,
    real_engine,
    running_worker,
    stand_in,
)

HOLD_FILLERS, HOLD_FILLER_TOKENS = 10, 4000
LARGEST_BLOCK_TOKENS = 128  # of vLLM on a CPU; on a GPU it is 16
PHASES = [phase for phase in Phase if phase != Phase.MEMBERS]  # of a worker that is no group's member


@pytest.fixture(params=["stand-in", pytest.param("vllm", marks=pytest.mark.engine)])
def under_test(request: pytest.FixtureRequest, tmp_path: Path) -> EngineUnderTest:
    return (
        stand_in(tmp_path, token_s="0.01", start_s="1", kv_tokens="131072")
        if request.param == "stand-in"
        else real_engine()
    )


async def test_an_engine_serves_listed_paths_and_finishes_a_stream_in_the_drain(
    under_test: EngineUnderTest, tmp_path: Path
) -> None:
    _promise_to_hold(tmp_path)
    async with running_worker(tmp_path, plan_of(under_test)) as worker:
        await _is_ready_only_after_a_token(worker, under_test.start_patience_s)
        await _tells_how_the_start_went(worker)
        await _hides_what_is_not_listed(worker)
        await _answers_as_openai_s_api(worker)
        await _shows_its_work(worker)
        await judges_requests(worker)
        await _holds_a_session(worker)
        await _counts_a_client_that_leaves(worker, under_test)
        await _drains_while_it_streams(worker, under_test)


@pytest.mark.parametrize(
    "under_test",
    ["stand-in", pytest.param("vllm", marks=[pytest.mark.engine, pytest.mark.thorough])],
    indirect=True,
)
async def test_a_killed_worker_process_becomes_a_failure_that_leaves_nothing_behind(
    under_test: EngineUnderTest, tmp_path: Path
) -> None:
    shared_memory = tmp_path / "shm"
    async with running_worker(tmp_path, plan_of(under_test), own_shared_memory(shared_memory)) as worker:
        await worker.until_ready(under_test.start_patience_s)
        below = worker.below
        async with worker.stream(under_test.tokens) as answer:
            await answer.content.readline()
            os.kill(pid_titled(below, WORKER_TITLE), signal.SIGKILL)
            rest = (await answer.content.read()).decode()
        assert '"error"' in rest, "vLLM tells a stream that it was cut"
        assert await worker.exit_code() == 1
        said = worker.termination
        assert (said["reason"], said["phase"], said["exitCode"]) == ("EngineDied", "serving", 0)
        assert "worker" in said["message"]
        assert not living(below)
    assert os.listdir(shared_memory) == []


async def _is_ready_only_after_a_token(worker: Worker, patience_s: float) -> None:
    await worker.until(lambda: _answers(worker, "/livez"))
    assert (await worker.status("/readyz")).status == 503
    assert (await worker.status("/startupz")).json["reason"] == "Starting"
    await worker.until_ready(patience_s)
    page = (await worker.status("/metrics/engine")).text
    tokens = [line for line in page.splitlines() if line.startswith("vllm:generation_tokens_total")]
    assert sum(float(line.rpartition(" ")[2]) for line in tokens) >= 1
    assert await worker.ended("completed") == 0, "our own request is not a client's"


async def _tells_how_the_start_went(worker: Worker) -> None:
    page = await worker.metrics()
    phases = [phase for phase in Phase if f'modelfleet_worker_start_phase_seconds{{phase="{phase}"}}' in page]
    assert phases == PHASES, "each phase was told by words that this engine says"
    await worker.until(lambda: _is_kept(worker))
    kept = _kept(worker)
    assert (kept["phase"], kept["percent"], set(kept["phases_s"])) == (None, 100, set(PHASES))
    assert set(kept["earlier_s"]) == set(PHASES), "the next container of the pod measures its start by this one"


def _kept(worker: Worker) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((worker.folder / "run" / "start.json").read_text())
    return value


async def _is_kept(worker: Worker) -> bool:
    return _kept(worker)["phase"] is None


async def _answers_as_openai_s_api(worker: Worker) -> None:
    """Two samples, usage, chunks of a stream, and errors; leaves one completed and two refused requests."""
    body = {"model": "tiny", "prompt": "a b c", "max_tokens": 4, "n": 2, "ignore_eos": True}
    answer = (await worker.api("/v1/completions", body)).json
    assert [(choice["index"], choice["finish_reason"]) for choice in answer["choices"]] == [
        (0, "length"),
        (1, "length"),
    ]
    usage = answer["usage"]
    assert usage["completion_tokens"] == 8
    assert usage["total_tokens"] == usage["prompt_tokens"] + 8
    for refused in ({**body, "max_tokens": 10**7}, {**body, "prompt": ""}):
        answer = await worker.api("/v1/completions", refused)
        assert (answer.status, "message" in answer.json["error"]) == (400, True)
    async with worker.stream(3) as stream:
        lines = [line for line in (await stream.content.read()).decode().splitlines() if line]
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks[:-1])
    assert chunks[-2]["choices"][0]["finish_reason"] == "length"
    assert (chunks[-1]["choices"], chunks[-1]["usage"]["completion_tokens"]) == ([], 3)


async def _shows_its_work(worker: Worker) -> None:
    """The series that health and the operator read, and what they hold after an answer of 8 tokens."""
    page = (await worker.status("/metrics/engine")).text
    assert all(f"\n{name}{{" in page for name in WORK), page
    assert sum(value > 0 for value in numbers(page)) >= 4, "tokens of both kinds, steps, finished requests"
    assert 'finished_reason="length"' in page
    assert "vllm:cache_config_info{" in page


async def _answers(worker: Worker, path: str) -> bool:
    try:
        return (await worker.status(path)).status == 200
    except OSError:
        return False


async def _hides_what_is_not_listed(worker: Worker) -> None:
    assert (await worker.api("/health")).status == 200
    assert [model["id"] for model in (await worker.api("/v1/models")).json["data"]] == ["tiny", "alias"]
    hidden = [
        "/metrics",
        "/version",
        "/load",
        "/ping",
        "/openapi.json",
        "/docs",
        "/v1/load_lora_adapter",
        "/v1/models/",
    ]
    assert {path: (await worker.api(path)).status for path in hidden} == dict.fromkeys(hidden, 404)
    assert (await worker.api("/scale_elastic_ep", body={})).status == 404
    answer = await worker.api("/v1/completions", body={"model": "alias", "prompt": "hi", "max_tokens": 3})
    assert (answer.status, answer.json["usage"]["completion_tokens"]) == (200, 3)
    assert (await worker.api("/v1/completions", body={"model": "other", "prompt": "hi"})).status == 404
    # An answer's last byte reaches the client before the engine's own code around it has returned.
    await worker.until(lambda: _ended_are(worker, completed=2, client_error=1))


def _promise_to_hold(folder: Path) -> None:
    hold = {"header": "x-tier", "values": ["gold"], "maxGap_s": 600, "maxShareOfCache": 0.1}
    value = {"digest": "0123abcd", "objectives": [{"name": "chat", "ttft_s": 1, "tpot_s": 1}, STRICT], "hold": hold}
    (folder / "worker").mkdir()
    (folder / "worker" / "promise.json").write_text(json.dumps(value))


async def _holds_a_session(worker: Worker) -> None:
    """While others fill more than a quarter of the cache a held session is touched, and found whole but for a block."""
    before = await worker.ended("completed")
    body = {"model": "tiny", "max_tokens": 40, "ignore_eos": True}
    await worker.api("/v1/completions", {**body, "prompt": [*range(5, 965)]}, **{"x-tier": "gold"})
    await worker.until(lambda: _holds(worker, 1000))  # a moment after the answer
    for other in range(HOLD_FILLERS):
        prompt = [5 + (number * 31 + other) % 990 for number in range(HOLD_FILLER_TOKENS)]
        await worker.api("/v1/completions", {**body, "prompt": prompt, "max_tokens": 1})
    await worker.until(lambda: _has_touched(worker))
    page = await worker.metrics()
    touches = page["modelfleet_worker_hold_touches_total"]
    assert page["modelfleet_worker_hold_computed_tokens_total"] <= touches * LARGEST_BLOCK_TOKENS
    assert page["modelfleet_worker_held_sessions"] == 1
    await worker.until(lambda: _ended_are(worker, completed=int(before) + 1 + HOLD_FILLERS))


async def _holds(worker: Worker, tokens: int) -> bool:
    return (await worker.metrics())["modelfleet_worker_held_tokens"] == tokens


async def _has_touched(worker: Worker) -> bool:
    return (await worker.metrics())["modelfleet_worker_hold_touches_total"] >= 1


async def _counts_a_client_that_leaves(worker: Worker, under_test: EngineUnderTest) -> None:
    async with worker.stream(under_test.tokens, under_test.choices) as answer:
        await answer.content.readline()
        assert await worker.in_flight() == 1
        answer.close()
    await worker.until(lambda: _in_flight_is(worker, 0))
    assert await worker.ended("aborted") == 1


async def _ended_are(worker: Worker, **counts: int) -> bool:
    return {outcome: await worker.ended(outcome) for outcome in counts} == counts


async def _drains_while_it_streams(worker: Worker, under_test: EngineUnderTest) -> None:
    tokens = under_test.tokens * under_test.choices
    async with worker.stream(under_test.tokens, under_test.choices) as answer:
        await answer.content.readline()
        below = worker.below
        worker.terminate()
        await worker.until(lambda: _is_not_ready(worker))
        late = await worker.api("/v1/models")
        assert (late.status, late.headers["Connection"]) == (200, "close")
        worker.terminate()  # a second one changes nothing
        await worker.until(lambda: _refuses(worker))
        refused = await worker.api("/v1/models")
        assert (refused.headers["Retry-After"], refused.headers["Connection"]) == ("1", "close")
        # The stream still runs, so the last step came before its end.
        assert await worker.in_flight() == 1, worker.log
        assert (await worker.status("/livez")).status == 200
        events = [line for line in (await answer.content.read()).decode().splitlines() if line]
    assert events[-1] == "data: [DONE]"
    assert not [event for event in events if '"error"' in event]
    assert json.loads(events[-2].removeprefix("data: "))["usage"]["completion_tokens"] == tokens
    assert await worker.exit_code() == 0
    assert worker.termination is None
    assert not living(below)


async def _is_not_ready(worker: Worker) -> bool:
    answer = await worker.status("/readyz")
    return answer.status == 503 and answer.json["reason"] == "Draining"


async def _refuses(worker: Worker) -> bool:
    return (await worker.api("/v1/models")).status == 503


async def _in_flight_is(worker: Worker, count: int) -> bool:
    return await worker.in_flight() == count
