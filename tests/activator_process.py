"""An activator as a process of its own, and stand-in engines behind it, all on loopback."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

import stand_in_engine
from worker_process import free_port

PATIENCE_S = 30.0  # for what takes a moment; a test that needs it all has failed
HERE = "127.0.0.1"


class Activator:
    """A running activator. Waits are bounded by patience, never asserted."""

    def __init__(self, process: subprocess.Popen[bytes], admin: int, pod: str) -> None:
        self.process, self.pod = process, pod
        self._admin = f"http://{HERE}:{admin}"

    async def is_ready(self) -> bool:
        try:
            async with aiohttp.ClientSession() as session, session.get(f"{self._admin}/readyz") as answer:
                return answer.status == 200
        except aiohttp.ClientError:
            assert self.process.poll() is None, "the activator ended"
            return False

    async def metrics(self) -> dict[str, float]:
        """Series and value, without our prefix."""
        async with aiohttp.ClientSession() as session, session.get(f"{self._admin}/metrics") as answer:
            text = await answer.text()
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        read = (line.rpartition(" ") for line in lines)
        return {series.removeprefix("modelfleet_activator_"): float(value) for series, _, value in read}

    async def held(self) -> float:
        return sum(value for series, value in (await self.metrics()).items() if series.startswith("held{"))

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.process.kill()

    async def exit_code(self) -> int:
        return await asyncio.wait_for(asyncio.to_thread(self.process.wait), PATIENCE_S)


@asynccontextmanager
async def running_activator(
    kubeconfig: Path, *flags: str, pod: str = "activator-a", address: str = HERE, pod_ip: str = ""
) -> AsyncIterator[Activator]:
    """Starts one that listens on an address and waits until it is ready; `pod_ip`: what it writes into slices."""
    admin = free_port()
    variables = {
        "POD_NAME": pod,
        "POD_NAMESPACE": "modelfleet-system",
        "POD_IP": pod_ip or address,
        "PATH": os.environ["PATH"],
    }
    own = (f"--kubeconfig={kubeconfig}", f"--host={address}", f"--metrics-host={HERE}", f"--metrics-port={admin}")
    brisk = ("--propagation-seconds=0.2", "--comment-seconds=0.3", *flags)
    command = [sys.executable, "-m", "modelfleet.activator.main", *own, *brisk]
    with _started(command, variables) as process:
        running = Activator(process, admin, pod)
        try:
            await until(running.is_ready)
            yield running
        finally:
            process.kill()


@asynccontextmanager
async def running_engine(port: int, name: str, **knobs: str) -> AsyncIterator[None]:
    """A stand-in engine that answers at a port."""
    variables = {**os.environ, "STAND_IN_FAULT": "ungated"}
    variables |= {f"STAND_IN_{knob.upper()}": value for knob, value in knobs.items()}
    serve = ("-m", "vllm.entrypoints.cli.main", "serve", "model", f"--served-model-name={name}", f"--port={port}")
    with _started([sys.executable, stand_in_engine.__file__, *serve], variables) as process:
        try:
            await until(lambda: listens(port))
            yield
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # its worker outlives it otherwise


def _started(command: list[str], variables: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(command, env=variables, start_new_session=True)


async def until(true: Callable[[], Awaitable[bool]] | Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Waits until it is so."""
    async with asyncio.timeout(patience_s):
        while True:
            found = true()
            if await found if isinstance(found, Awaitable) else found:
                return
            await asyncio.sleep(0.02)


async def listens(port: int) -> bool:
    """Whether somebody answers there."""
    try:
        _, writer = await asyncio.open_connection(HERE, port)
    except OSError:
        return False
    writer.close()
    return True


class Client:
    """A client of one model's port: a new connection for each request, as most have at zero.

    `told`: how many of its requests have got a comment.
    """

    def __init__(self, session: aiohttp.ClientSession, port: int, name: str, host: str = HERE) -> None:
        self._session, self._name, self._root = session, name, f"http://{host}:{port}"
        self.told = 0

    async def complete(self, tokens: int = 3, **headers: str) -> "Answer":
        """A chat completion that is not streamed."""
        return await self.post("/v1/chat/completions", self._asked(tokens), headers)

    async def stream(self, tokens: int = 3, **headers: str) -> "Answer":
        """A streamed one, read to its end."""
        return await self.post("/v1/chat/completions", {**self._asked(tokens), "stream": True}, headers)

    async def post(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> "Answer":
        async with self._session.post(self._root + path, json=body, headers=headers) as answer:
            lines: list[bytes] = []
            async for line in answer.content:
                self.told += line.startswith(b":") and not any(before.startswith(b":") for before in lines)
                lines.append(line)
            return Answer(answer.status, dict(answer.headers), b"".join(lines).decode())

    async def get(self, path: str) -> "Answer":
        async with self._session.get(self._root + path) as answer:
            return Answer(answer.status, dict(answer.headers), await answer.text())

    def _asked(self, tokens: int) -> dict[str, Any]:
        messages = [{"role": "user", "content": "hi"}]
        return {"model": self._name, "messages": messages, "max_tokens": tokens, "ignore_eos": True}


class Answer:
    """What a client got."""

    def __init__(self, status: int, headers: Mapping[str, str], text: str) -> None:
        self.status, self.headers, self.text = status, headers, text

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def events(self) -> list[str]:
        """The data of its events."""
        return [line.removeprefix("data: ") for line in self.text.splitlines() if line.startswith("data: ")]

    @property
    def comments(self) -> list[str]:
        return [line for line in self.text.splitlines() if line.startswith(":")]


@asynccontextmanager
async def clients() -> AsyncIterator[aiohttp.ClientSession]:
    """A session for many clients."""
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(PATIENCE_S)) as session:
        yield session
