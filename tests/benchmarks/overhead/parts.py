"""What each of our layers takes alone, in CPU microseconds: run in the engine's Python, prints one JSON object.

The fastest of many rounds, so it says what the code costs and not what the machine did meanwhile. Not in it: caches
that are cold because the engine works in between, which a whole engine shows.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

_ROUNDS, _TIMES = 15, 2000
_PROMISE = '{"digest": "0123456789ab", "objectives": [{"name": "bench", "ttft_s": 10.0, "tpot_s": 1.0}]}'
_BODY = b'data: {"id":"cmpl-0","object":"text_completion","choices":[{"index":0,"text":" a"}]}\n\n'
_SCOPE = {
    "type": "http",
    "method": "POST",
    "path": "/v1/completions",
    "headers": [(b"host", b"a"), (b"content-type", b"application/json"), (b"content-length", b"300")],
}


def main(streams: list[int]) -> None:
    """`streams` are the batch sizes of a step."""
    from modelfleet_worker.gate_state import FOLDER_VARIABLE, TOKEN_VARIABLE, Board
    from modelfleet_worker.promise import parse_promise

    with tempfile.TemporaryDirectory() as name:
        board = Board(Path(name) / "gate")
        board.set_promise(parse_promise(_PROMISE), _PROMISE)
        os.environ |= {FOLDER_VARIABLE: str(board.folder), TOKEN_VARIABLE: "token"}
        found = {
            "chunk_us": asyncio.run(_chunk_us()),
            "request_us": asyncio.run(_request_us(board.folder)),
            "step_us": {str(number): _step_us(number) for number in streams},
        }
    print(json.dumps(found))


def _least_us(each: Callable[[], Any]) -> float:
    taken = []
    for _ in range(_ROUNDS):
        start_s = time.process_time()
        for _ in range(_TIMES):
            each()
        taken.append((time.process_time() - start_s) / _TIMES * 1e6)
    return min(taken)


async def _least_awaited_us(each: Callable[[], Awaitable[None]]) -> float:
    taken = []
    for _ in range(_ROUNDS):
        start_s = time.process_time()
        for _ in range(_TIMES):
            await each()
        taken.append((time.process_time() - start_s) / _TIMES * 1e6)
    return min(taken)


async def _send(message: Any) -> None:
    """uvicorn's side."""


async def _receive() -> Any:
    return {"type": "http.request", "body": b"{}", "more_body": False}


async def _chunk_us() -> float:
    """A chunk of a stream on its way out."""
    from modelfleet_worker.exchange import Exchange

    exchange = Exchange(_receive, _send, close=False)
    message = {"type": "http.response.body", "body": _BODY, "more_body": True}
    return await _least_awaited_us(lambda: exchange.send(message)) - await _least_awaited_us(lambda: _send(message))


async def _request_us(folder: Path) -> float:
    """A request through the gate, with one sequence that the hooks hear of."""
    from vllm.v1.metrics.stats import RequestStateStats

    from modelfleet_worker import hold, ledger, vllm_plugin
    from modelfleet_worker.gate import Gate
    from modelfleet_worker.recent_inputs import RecentInputs

    recent = RecentInputs(folder)
    request = SimpleNamespace(sampling_params=SimpleNamespace(prompt_logprobs=None), mm_features=None)

    async def plain(scope: Any, receive: Any, send: Any) -> RequestStateStats:
        await receive()
        stats = RequestStateStats(num_generation_tokens=256, arrival_time=time.time(), last_token_ts=1.0)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        return stats

    async def hooked(scope: Any, receive: Any, send: Any) -> None:
        stats = await plain(scope, receive, send)
        state = SimpleNamespace(stats=stats, prompt_len=128)
        ledger.sequence_added(stats, 128)
        vllm_plugin._note(recent, request, state)
        hold.added(request, state)
        ledger.sequence_finished(stats, "length")

    gate = Gate(hooked)
    with_us = await _least_awaited_us(lambda: gate(_SCOPE, _receive, _send))

    async def bare() -> None:
        await plain(_SCOPE, _receive, _send)

    return with_us - await _least_awaited_us(bare)


def _step_us(streams: int) -> dict[str, float]:
    """A step in which `streams` sequences decode: in the engine's core, and in the API server."""
    from vllm.v1.core.sched.output import CachedRequestData
    from vllm.v1.engine import EngineCoreOutput, EngineCoreOutputs
    from vllm.v1.engine.core import EngineCore
    from vllm.v1.metrics.stats import IterationStats, SchedulerStats
    from vllm.v1.serial_utils import MsgpackDecoder, MsgpackEncoder

    from modelfleet_worker import vllm_core
    from modelfleet_worker.vllm_plugin import GoodputStatLogger

    plain = EngineCore.capture_iteration_details
    vllm_core.install()
    ids = [f"cmpl-{number:032x}-0" for number in range(streams)]
    cached = CachedRequestData(
        req_ids=ids,
        resumed_req_ids=set(),
        new_token_ids=[],
        all_token_ids={},
        new_block_ids=[None] * streams,
        num_computed_tokens=[200] * streams,
        num_output_tokens=[70] * streams,
    )
    scheduled = SimpleNamespace(
        total_num_scheduled_tokens=streams,
        scheduled_new_reqs=[],
        scheduled_cached_reqs=cached,
        num_scheduled_tokens=dict.fromkeys(ids, 1),
        scheduled_encoder_input_stats=None,
    )
    settings = SimpleNamespace(enable_logging_iteration_details=False)
    config = SimpleNamespace(observability_config=settings, parallel_config=SimpleNamespace(_api_process_count=1))
    core = SimpleNamespace(vllm_config=config, log_stats=True, scheduler=None)
    outputs = [EngineCoreOutput(request_id=one, new_token_ids=[5]) for one in ids]
    told = EngineCoreOutputs(outputs=outputs, scheduler_stats=SchedulerStats())
    encoder, decoder = MsgpackEncoder(), MsgpackDecoder(EngineCoreOutputs)

    def step(capture: Any) -> None:
        with capture(core, scheduled) as details:
            pass
        EngineCore._attach_iteration_details(core, {0: told}, details)
        encoder.encode(told)

    def decoded() -> float:
        parts = encoder.encode(told)
        return _least_us(lambda: decoder.decode(parts))

    core_us, api_us = -_least_us(lambda: step(plain)), -decoded()
    settings.enable_logging_iteration_details = True
    core_us, api_us = core_us + _least_us(lambda: step(EngineCore.capture_iteration_details)), api_us + decoded()
    logger = GoodputStatLogger(config, [0])
    seen = IterationStats()
    seen.num_generation_tokens, seen.inter_token_latencies_iter = streams, [0.01] * streams
    return {"core": core_us, "api": api_us + _least_us(lambda: logger.record(told.scheduler_stats, seen))}


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]])
