"""What stands between clients and the engine: nothing, nginx, or the activator; what each process takes."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from activator_api import ApiServer, activator_slice, api_server, deployment, workers_slice
from activator_process import Activator, listens, running_activator, until
from benchmarks.activator.traffic import HOST
from modelfleet.api import names
from modelfleet_local.paths import cache_dir
from worker_process import free_port

NAME = "chat"
_TICKS = os.sysconf("SC_CLK_TCK")
_CONFIG = """
daemon off; pid {folder}/pid; error_log {folder}/error.log; worker_processes {workers}; worker_rlimit_nofile {files};
events {{ worker_connections {files}; }}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  client_body_buffer_size 16k;
  server {{
    listen {port} backlog=4096; keepalive_requests 1000000;
    location / {{
      proxy_pass http://{host}:{engine}; proxy_http_version 1.1; proxy_buffering off; proxy_read_timeout 1h;
    }}
  }}
}}
"""


class MissingError(Exception):
    """nginx cannot be had; the text says how to get it."""


def nginx_program() -> Path:
    """nginx of the machine, else of Debian's package, unpacked into the cache: installing it would start a service."""
    for there in (Path("/usr/sbin/nginx"), cache_dir() / "nginx/usr/sbin/nginx"):
        if there.exists():
            return there
    folder = cache_dir() / "nginx"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        subprocess.run(["apt-get", "download", "nginx"], cwd=folder, check=True, capture_output=True)
        (package,) = folder.glob("nginx_*.deb")
        subprocess.run(["dpkg-deb", "-x", package, folder], check=True, capture_output=True)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        raise MissingError("nginx is missing: run `apt-get update`, or install the package nginx") from error
    return folder / "usr/sbin/nginx"


@contextmanager
def nginx(folder: Path, engine: int, workers: int) -> Iterator[tuple[int, "subprocess.Popen[bytes]"]]:
    """nginx in front of the engine: its port, and its workers' process ids."""
    folder.mkdir(parents=True, exist_ok=True)
    port, path = free_port(), folder / "nginx.conf"
    files = min(32768, os.sysconf("SC_OPEN_MAX"))
    path.write_text(_CONFIG.format(folder=folder, workers=workers, files=files, port=port, host=HOST, engine=engine))
    with subprocess.Popen([nginx_program(), "-p", str(folder), "-c", str(path)]) as process:
        try:
            yield port, process
        finally:
            process.terminate()


@asynccontextmanager
async def activator(folder: Path, engine: int | None) -> AsyncIterator[tuple[int, Activator, "Serve"]]:
    """An activator, with the engine behind it if there is one yet: its port, itself, and what lets workers serve."""
    port = free_port()
    async with api_server() as api:
        api.put(names.DEPLOYMENT_PLURAL, deployment(NAME, port, waits="1h"))
        api.put("endpointslices", activator_slice(NAME, port))
        serve = Serve(api)
        if engine is not None:
            serve(engine)
        async with running_activator(
            api.kubeconfig(_made(folder)), "--held-requests=20000", "--comment-seconds=3600"
        ) as made:
            if engine is not None:
                await until(lambda: _sees_workers(made))
            yield port, made, serve


class Serve:
    """Lets an engine serve, as Kubernetes would list it."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api

    def __call__(self, engine: int) -> None:
        self._api.put("endpointslices", workers_slice(NAME, {HOST: engine}))

    def nobody(self) -> None:
        """No worker serves any longer."""
        self._api.put("endpointslices", workers_slice(NAME, {}))


@asynccontextmanager
async def engine() -> AsyncIterator[int]:
    """A running engine's port."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.activator.traffic", "engine", str(port)]
    with _started(command) as process:
        try:
            await until(lambda: listens(port))
            yield port
        finally:
            process.kill()


def _started(command: list[str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(command)


def cpu_s(pids: list[int]) -> float:
    """Processor time of processes."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(each[11]) + int(each[12]) for each in fields) / _TICKS


def memory_bytes(pids: list[int]) -> int:
    """Resident memory of processes that is theirs alone."""
    return sum(_kilobytes(Path(f"/proc/{pid}/smaps_rollup").read_text(), "Pss:") for pid in pids) * 1024


def workers_of(process: "subprocess.Popen[bytes]") -> list[int]:
    """nginx's workers."""
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def _kilobytes(text: str, field: str) -> int:
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith(field))


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


async def sees_none(made: Activator) -> bool:
    """Whether the activator knows of no worker."""
    return not await _sees_workers(made)


async def _sees_workers(made: Activator) -> bool:
    return any(value for series, value in (await made.metrics()).items() if series.startswith("workers{"))
