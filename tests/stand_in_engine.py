"""A stand-in for vLLM that starts in a moment: what the supervisor and the gate rely on, and how vLLM fails.

It takes the place of the engine's Python in a plan: `STAND-IN -m vllm.entrypoints.cli.main serve MODEL --FLAG=VALUE`.
tests/engine/test_contract.py holds it to what the real engine does. Knobs are environment variables of the plan:

STAND_IN_START_S      seconds until it listens
STAND_IN_TOKEN_S      seconds a token takes
STAND_IN_SAYS         printed at the start
STAND_IN_EXIT         exit code; it ends right after it spoke
STAND_IN_FAULT        deaf (ignores SIGTERM), ungated (loads no middleware), unhealthy (/health 503), silent (never
                      answers a completion), refusing (400 to a completion), failing (500 to a completion)
"""

import argparse
import asyncio
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

import stand_in_group

WORKER_TITLE = "VLLM::Worker"  # as vLLM calls its worker process
FAULT = os.environ.get("STAND_IN_FAULT", "")
TOKEN_S = float(os.environ.get("STAND_IN_TOKEN_S", "0.001"))


class Engine:
    """Generates tokens until it dies with its worker process or is shut down."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.model_names: list[str] = options.served_model_name
        self.tokens = 0
        self.worker = subprocess.Popen([WORKER_TITLE, "-c", "import time; time.sleep(3600)"], executable=sys.executable)
        self.gone = asyncio.Event()
        self.peers = stand_in_group.Peers(options, self.gone)
        self.dead = False

    async def watch(self) -> None:
        """vLLM's engine core notices a dead worker; its API server ends a second later, with exit code 0."""
        code = await asyncio.get_running_loop().run_in_executor(None, self.worker.wait)
        if self.gone.is_set():
            return
        died = f"Worker proc VllmWorker-0 died unexpectedly (exit code: {code})."
        say(f"ERROR 01-01 00:00:00 [multiproc_executor.py:1] {died}")
        self.dead = True
        self.gone.set()
        await asyncio.sleep(0.3)

    async def generate(self, count: int) -> AsyncIterator[int]:
        """Token numbers; fewer than `count` if the engine goes meanwhile."""
        for number in range(count):
            if self.gone.is_set():
                return
            await asyncio.sleep(TOKEN_S)
            if self.peers and not await self.peers.step():
                self.worker.kill()  # vLLM's dies of the broken connection
                await self.gone.wait()
                return
            self.tokens += 1
            yield number


def say(text: str) -> None:
    print(f"(APIServer pid={os.getpid()}) {text}", flush=True)


def main() -> None:
    options = parse(sys.argv[1:])
    if said := os.environ.get("STAND_IN_SAYS"):
        print(said, flush=True)
    if code := os.environ.get("STAND_IN_EXIT"):
        sys.exit(int(code))
    time.sleep(float(os.environ.get("STAND_IN_START_S", "0")))
    if options.headless:
        stand_in_group.follow(options, WORKER_TITLE)
        return
    asyncio.run(serve(options))


def parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="vllm")
    parser.add_argument("-m", dest="module", choices=["vllm.entrypoints.cli.main"], required=True)
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("model")
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parser.add_argument("--served-model-name", nargs="+", required=True)
    parser.add_argument("--middleware", action="append", default=[])
    parser.add_argument("--shutdown-timeout", type=int, choices=[0])
    parser.add_argument("--disable-access-log-for-endpoints")
    parser.add_argument("--max-model-len", type=int)
    parser.add_argument("--tensor-parallel-size", type=int)
    stand_in_group.add_arguments(parser)
    return parser.parse_args(argv)


async def serve(options: argparse.Namespace) -> None:
    engine = Engine(options)
    app = application(engine)
    if FAULT != "ungated":
        for name in options.middleware:
            module, _, attribute = name.rpartition(".")
            app.add_middleware(getattr(importlib.import_module(module), attribute))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, engine.gone.set if FAULT != "deaf" else lambda: None)
    listening = asyncio.ensure_future(
        server._serve([bound(options)])
    )  # without uvicorn's own signal handlers, as vLLM does
    watching = asyncio.ensure_future(engine.watch())
    await engine.gone.wait()
    if engine.dead:
        await watching
    else:
        engine.worker.kill()
    server.should_exit = True
    await listening


def bound(options: argparse.Namespace) -> socket.socket:
    """vLLM binds its socket itself: `::` then takes IPv4 too, which uvicorn's own would not."""
    one = socket.socket(socket.AF_INET6 if ":" in options.host else socket.AF_INET)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind((options.host, options.port))
    return one


def application(engine: Engine) -> Starlette:
    async def health(_: Request) -> Response:
        return Response(status_code=503 if engine.dead or FAULT == "unhealthy" else 200)

    async def metrics(_: Request) -> Response:
        return PlainTextResponse(
            f'vllm:generation_tokens_total{{model_name="{engine.model_names[0]}"}} {engine.tokens}.0\n'
        )

    async def models(_: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": name} for name in engine.model_names]})

    async def generate(request: Request) -> Response:
        wanted = await request.json()
        if FAULT == "silent":
            await asyncio.sleep(3600)
        if wanted["model"] not in engine.model_names:
            return problem(404, f"The model `{wanted['model']}` does not exist.")
        if FAULT in ("refusing", "failing"):
            return problem(400 if FAULT == "refusing" else 500, "The model does not support Completions API")
        count = wanted.get("max_tokens", 16)
        if wanted.get("stream"):
            return StreamingResponse(events(engine, count), media_type="text/event-stream")
        text = "".join([f"{number} " async for number in engine.generate(count)])
        choice = {
            "index": 0,
            "text": text,
            "message": {"role": "assistant", "content": text},
            "finish_reason": "length",
        }
        return JSONResponse({"choices": [choice], "usage": {"completion_tokens": count}})

    async def admin(_: Request) -> Response:
        return PlainTextResponse("an admin path answered")

    return Starlette(
        routes=[
            Route("/health", health),
            Route("/metrics", metrics),
            Route("/v1/models", models),
            Route("/v1/completions", generate, methods=["POST"]),
            Route("/v1/chat/completions", generate, methods=["POST"]),
            *(
                Route(path, admin, methods=["GET", "POST"])
                for path in ("/version", "/load", "/ping", "/scale_elastic_ep")
            ),
        ]
    )


async def events(engine: Engine, count: int) -> AsyncIterator[str]:
    done = 0
    async for number in engine.generate(count):
        done += 1
        yield event({"choices": [{"index": 0, "delta": {"content": f"{number} "}}]})
    if done < count:
        yield event({"error": {"message": "EngineCore encountered an issue.", "code": 500}})
    else:
        yield event({"choices": [], "usage": {"completion_tokens": done}})
    yield "data: [DONE]\n\n"


def event(value: Any) -> str:
    return f"data: {json.dumps(value)}\n\n"


def problem(status: int, text: str) -> Response:
    return JSONResponse({"error": {"message": text, "code": status}}, status_code=status)


if __name__ == "__main__":
    main()
