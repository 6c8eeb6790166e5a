"""The stand-in's multi-node mode: what vLLM's members do to each other when one dies or freezes.

Seen on vLLM 0.32: with a pipeline the leader stays healthy and its requests hang when a peer is gone; with tensor
parallelism alone the next request fails and the engine ends with exit code 0. A frozen peer hangs both. A headless
member does not notice that its leader is gone. tests/e2e/test_group_stories.py has the real one.
"""

import argparse
import asyncio
import os
import signal
import socket
import subprocess
import sys
import time

_STEP = b"."
_MEET_TIMEOUT_S = 60.0


class Peers:
    """The leader's connections to the other members; every token needs an answer from each."""

    def __init__(self, options: argparse.Namespace, gone: asyncio.Event) -> None:
        """Blocks until all members came. `gone`: the leader's engine is told to end."""
        self._pipeline = options.pipeline_parallel_size > 1
        self._sockets: list[socket.socket] = []
        self._turn, self._gone = asyncio.Lock(), gone
        if options.nnodes == 1:
            return
        with socket.create_server(("", options.master_port)) as server:
            server.settimeout(_MEET_TIMEOUT_S)
            for _ in range(options.nnodes - 1):
                one, _ = server.accept()
                one.setblocking(False)
                self._sockets.append(one)

    async def step(self) -> bool:
        """One token through all members; hangs where a stage of the pipeline is gone, and where any member is frozen.

        False: a member of a tensor-parallel engine is gone, or this engine is told to end.
        """
        if not self._sockets:
            return True
        stepping, ending = asyncio.ensure_future(self._step()), asyncio.ensure_future(self._gone.wait())
        await asyncio.wait([stepping, ending], return_when=asyncio.FIRST_COMPLETED)
        ending.cancel()
        if not stepping.done():
            stepping.cancel()
            return False
        return stepping.result()

    def __bool__(self) -> bool:
        return bool(self._sockets)

    async def _step(self) -> bool:
        loop = asyncio.get_running_loop()
        async with self._turn:
            for one in self._sockets:
                try:
                    await loop.sock_sendall(one, _STEP)
                    answered = await loop.sock_recv(one, 1) == _STEP
                except OSError:
                    answered = False
                if not answered and self._pipeline:
                    await asyncio.sleep(3600)
                if not answered:
                    return False
        return True


def follow(options: argparse.Namespace, worker_title: str) -> None:
    """A headless member: a worker process that answers the leader, and this one, which ends with it."""
    code = f"from stand_in.group import answer; answer({options.master_addr!r}, {options.master_port})"
    path = os.pathsep.join([os.path.dirname(os.path.dirname(os.path.abspath(__file__))), *sys.path])
    worker = subprocess.Popen(
        [worker_title, "-c", code], executable=sys.executable, env={**os.environ, "PYTHONPATH": path}
    )
    signal.signal(signal.SIGTERM, lambda *_: worker.kill())
    worker.wait()


def answer(host: str, port: int) -> None:
    """Answers every step of the leader; a leader that is gone is not noticed."""
    deadline_s = time.monotonic() + _MEET_TIMEOUT_S
    while True:
        try:
            connection = socket.create_connection((host, port))
            break
        except OSError:
            if time.monotonic() > deadline_s:
                raise
            time.sleep(0.05)
    while step := connection.recv(1):
        connection.sendall(step)
    time.sleep(3600)
