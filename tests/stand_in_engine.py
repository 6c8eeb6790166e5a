"""A stand-in for vLLM that starts in a moment and serves hundreds of requests a second: what worker and operator rely
on, and how vLLM fails. Its parts are in stand_in/.

It takes the place of the engine's Python in a plan: `STAND-IN -m vllm.entrypoints.cli.main serve MODEL --FLAG=VALUE`.
tests/engine/test_contract.py holds it to what the real engine does. Knobs are environment variables of the plan:

STAND_IN_START_S         seconds until it listens; it says what it does meanwhile as vLLM does
STAND_IN_LOAD_S          seconds more for the weights, STAND_IN_WARM_UP_S for what follows the cache
STAND_IN_TOKEN_S         seconds a step takes
STAND_IN_SEQUENCE_S      seconds more for each sequence that decodes in it
STAND_IN_PROMPT_TOKEN_S  seconds more for each prompt token that is computed in it
STAND_IN_SLOW_WHILE      a file: while it is there a step takes half a second more
STAND_IN_KV_TOKENS       what its cache holds
STAND_IN_SAYS            printed at the start
STAND_IN_EXIT            exit code; it ends right after it spoke
STAND_IN_FAULT           deaf (ignores SIGTERM), ungated (loads no middleware), unhealthy (/health 503), silent (never
                         answers a completion), refusing (400 to a completion), failing (500 to a completion); from the
                         second completion on: stalls (generates no more), spins (the same, with a busy processor),
                         freezes (answers nothing at all)

Of several ranks only the first serves; with --headless it waits until it is told to end.
"""

import argparse
import asyncio
import importlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parent))  # it runs with -P, and in a pod beside its parts

import uvicorn

from stand_in import group
from stand_in.api import Api
from stand_in.options import Knobs, kv_blocks, parse
from stand_in.simulation import Simulation

WORKER_TITLE = "VLLM::Worker"  # as vLLM calls its worker process

_LAST_WORDS_S = 1.0
_LOADS = "[cpu_model_runner.py:68] Starting to load model {model}..."
_WARMS = "[kv_cache_utils.py:2327] CPU KV cache size: {tokens:,} tokens"
# What vLLM 0.32 says while it starts, and when, as parts of the whole start.
_START_WORDS = (
    (0.3, "Worker", _LOADS),
    (0.5, "", "Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:00<00:00, 2.00it/s]"),
    (0.7, "", "Loading safetensors checkpoint shards: 100% Completed | 2/2 [00:00<00:00, 2.00it/s]"),
    (0.7, "Worker", "[default_loader.py:501] Loading weights took 0.01 seconds"),
    (0.9, "EngineCore", _WARMS),
    (1.0, "EngineCore", "[core.py:402] init engine (profile, create kv cache, warmup model) took 0.06 s"),
)


class Processes:
    """The engine's worker process and what its death does."""

    def __init__(self) -> None:
        self.worker = subprocess.Popen(
            [WORKER_TITLE, "-c", "import time; time.sleep(36000)"], executable=sys.executable
        )
        self.gone = asyncio.Event()
        self.dead = False

    async def watch(self) -> None:
        """vLLM's engine core notices a dead worker; its API server ends a second later, with exit code 0."""
        code = await asyncio.get_running_loop().run_in_executor(None, self.worker.wait)
        if self.gone.is_set():
            return
        died = f"Worker proc VllmWorker-0 died unexpectedly (exit code: {code})."
        say("APIServer", f"ERROR 01-01 00:00:00 [multiproc_executor.py:1] {died}")
        self.dead = True
        self.gone.set()
        await asyncio.sleep(0.3)


def say(process: str, text: str) -> None:
    print(f"({process} pid={os.getpid()}) {text}" if process else text, flush=True)


def main() -> None:
    options, knobs = parse(sys.argv[1:]), Knobs()
    if knobs.says:
        print(knobs.says, flush=True)
    if knobs.exit:
        sys.exit(int(knobs.exit))
    if options.headless:
        group.follow(options, WORKER_TITLE)
        return
    start(options, knobs)
    asyncio.run(serve(options, knobs))


def start(options: argparse.Namespace, knobs: Knobs) -> None:
    """Takes its time, and tells of it."""
    passed = 0.0
    for part, process, words in _START_WORDS if knobs.start_s else ():
        time.sleep((part - passed) * knobs.start_s)
        passed = part
        said = words.format(model=options.model, tokens=kv_blocks(options, knobs) * 16)
        say(process, f"INFO 01-01 00:00:00 {said}" if process else said)
        time.sleep({_LOADS: knobs.load_s, _WARMS: knobs.warm_up_s}.get(words, 0.0))


async def serve(options: argparse.Namespace, knobs: Knobs) -> None:
    processes = Processes()
    engine = Simulation(options, knobs, group.Peers(options, processes.gone))
    api = Api(engine)
    app = api
    for name in options.middleware if knobs.fault != "ungated" else ():
        module, _, attribute = name.rpartition(".")
        app = getattr(importlib.import_module(module), attribute)(app)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off", ws="none"))
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, processes.gone.set if knobs.fault != "deaf" else lambda: None)
    # without uvicorn's own signal handlers, as vLLM does
    listening = asyncio.ensure_future(server._serve([bound(options)]))
    watching, steps = asyncio.ensure_future(processes.watch()), asyncio.ensure_future(_run(engine, processes))
    await processes.gone.wait()
    api.dead = processes.dead
    steps.cancel()
    engine.die()
    if processes.dead:
        await watching
    else:
        processes.worker.kill()
    server.should_exit = True
    loop.call_later(
        _LAST_WORDS_S, setattr, server, "force_exit", True
    )  # a handler that hangs does not keep vLLM either
    await listening


async def _run(engine: Simulation, processes: Processes) -> None:
    """Steps until another member of a group is gone: vLLM's worker dies of the broken connection."""
    await engine.run()
    processes.worker.kill()


def bound(options: argparse.Namespace) -> socket.socket:
    """vLLM binds its socket itself: `::` then takes IPv4 too, which uvicorn's own would not."""
    one = socket.socket(socket.AF_INET6 if ":" in options.host else socket.AF_INET)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind((options.host, options.port))
    return one


if __name__ == "__main__":
    main()
