"""A group of workers as processes of their own on this machine, and its end as their operator would see it."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from worker_process import Worker, ending, free_port

NODES = ("node-a", "node-b", "node-c")


def group_plan(plan: dict[str, Any], nodes: int = 2) -> dict[str, Any]:
    """plan.json of a group; its ports are free ones, so that tests may run beside each other."""
    return plan | {"group": {"nodes": nodes, "data": 1, "masterPort": free_port()}}


class Group:
    """Where a group's workers run; `start` one by one, as kubelets do."""

    def __init__(self, stack: AsyncExitStack, folder: Path, plan: dict[str, Any]) -> None:
        self._stack, self._folder, self._plan = stack, folder, plan
        self._port = free_port()
        self._starts = 0

    async def start(self, rank: int, token: str = "token") -> Worker:
        """Starts a worker with this rank."""
        self._starts += 1
        folder = self._folder / f"rank-{rank}-{self._starts}"
        env = {
            "MODELFLEET_RANK": str(rank),
            "MODELFLEET_LEADER": "localhost",
            "MODELFLEET_GROUP_TOKEN": token,
            "MODELFLEET_POD_IP": "127.0.0.1",
            "MODELFLEET_NODE": NODES[rank],
        }
        return await self._stack.enter_async_context(_member(folder, self._plan, env, self._port))

    async def start_all(self) -> list[Worker]:
        """Starts every rank, and waits until all are ready."""
        workers = [await self.start(rank) for rank in range(self._plan["group"]["nodes"])]
        await asyncio.gather(*(worker.until_ready() for worker in workers))
        return workers


@asynccontextmanager
async def group(folder: Path, plan: dict[str, Any]) -> AsyncIterator[Group]:
    """A place for a group; nothing of it is left afterwards."""
    async with AsyncExitStack() as stack:
        yield Group(stack, folder, plan)


@asynccontextmanager
async def _member(folder: Path, plan: Any, env: dict[str, str], port: int) -> AsyncIterator[Worker]:
    (folder / "run").mkdir(parents=True)
    (folder / "plan.json").write_text(json.dumps(plan))
    ports = free_port(), free_port()
    with tempfile.TemporaryDirectory(prefix="member-", ignore_cleanup_errors=True) as scratch:
        command = [sys.executable, "-m", "modelfleet_worker.main", "serve", "--plan=plan.json", f"--group-port={port}"]
        command += [f"--http-port={ports[0]}", f"--status-port={ports[1]}", f"--runtime-folder={folder / 'run'}"]
        command += [f"--promise={folder / 'promise.json'}"]
        command += [f"--scratch-folder={scratch}", f"--termination-log={folder / 'termination-log'}"]
        with (folder / "log").open("wb") as log:
            own = {"PATH": os.environ["PATH"], "CUDA_VISIBLE_DEVICES": ""}
            process = subprocess.Popen(command, stdout=log, stderr=log, env=own | env, cwd=folder)  # noqa: ASYNC220
        async with ending(Worker(process, folder, ports)) as worker:
            yield worker
