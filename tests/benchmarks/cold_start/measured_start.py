"""One start of a worker, as a pod does it: the fetch, then the engine, timed by the clock and by the worker's page."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelfleet.api import names
from modelfleet.core.cold_start import PHASES, phase_of_worker
from modelfleet_worker import processes
from modelfleet_worker.fetch.order import Order
from worker_process import free_port

PATIENCE_S = 900.0
_PHASE = re.compile(r'modelfleet_worker_start_phase_seconds\{phase="(?P<phase>\w+)"\} (?P<seconds>\S+)')
_STATE = 'modelfleet_worker_state{{state="{}"}} 1.0'
_COMPILED = 'modelfleet_worker_compiled_code_info{{state="{}"}} 1.0'


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where it starts: a folder of its own, the engine's Python, what is fetched with which Secret, and the only folder
    that the engine may write to."""

    folder: Path
    python: Path
    order: Order
    secret: Mapping[str, str]
    scratch: Path


@dataclass(frozen=True, kw_only=True)
class Start:
    """`compiled`: kept code is used; `keeps`: the start ends when it has kept its own. `eager`: nothing is compiled."""

    compiled: bool
    eager: bool
    keeps: bool


def measured_start(place: Place, start: Start) -> dict[str, float]:
    """Seconds by phase, as core/cold_start.py names them. Raises RuntimeError with the worker's log where it does not
    serve."""
    shutil.rmtree(place.scratch, ignore_errors=True)
    (place.folder / "run").mkdir(exist_ok=True)
    weights_s = _fetched(place)
    began_s = time.monotonic()
    with _serving(place, start) as (address, process):
        page = _page_with(place, process, address, _STATE.format("serving"))
        ready_s = time.monotonic() - began_s
        if start.keeps or start.compiled:
            _page_with(place, process, address, _COMPILED.format("Kept" if start.keeps else "Taken"))
    told: dict[str, float] = {}
    for found in _PHASE.finditer(page):
        name = phase_of_worker(found["phase"])
        told[name] = told.get(name, 0.0) + float(found["seconds"])
    told["ready"] = max(0.0, ready_s - told.get("load", 0.0) - told.get("compile", 0.0))
    return {name: seconds for name, seconds in {"weights": weights_s, **told}.items() if name in PHASES}


def _fetched(place: Place) -> float:
    order = place.order
    weights = {
        "source": str(order.source),
        "revision": order.revision,
        "endpoint": order.endpoint,
        "key": order.key,
        "root": str(order.root),
        "shared": True,
    }
    (place.folder / "fetch.json").write_text(json.dumps({"weights": weights}))
    secret = {f"{names.CREDENTIAL_PREFIX}{key}": value for key, value in place.secret.items()}
    began_s = time.monotonic()
    with (place.folder / "log").open("ab") as log:
        argv = [*_worker(place, "fetch", "fetch.json"), f"--status-port={free_port()}"]
        code = subprocess.run(argv, env={"PATH": os.environ["PATH"], **secret}, stdout=log, stderr=log).returncode
    if code:
        raise RuntimeError(_log(place))
    return time.monotonic() - began_s


@contextmanager
def _serving(place: Place, start: Start) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    (place.folder / "plan.json").write_text(json.dumps(_plan(place, start)))
    port = free_port()
    argv = [
        *_worker(place, "serve", "plan.json"),
        f"--scratch-folder={place.scratch}",
        f"--promise={place.folder / 'promise.json'}",
        f"--http-port={free_port()}",
        f"--status-port={port}",
    ]
    with (place.folder / "log").open("ab") as log:
        process = subprocess.Popen(argv, env={"PATH": os.environ["PATH"]}, stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{port}/metrics", process
    finally:
        for pid in [process.pid, *processes.descendants(process.pid)] if process.poll() is None else []:
            if not processes.is_resource_tracker(pid):
                os.kill(pid, 9)
        process.wait()


def _plan(place: Place, start: Start) -> dict[str, Any]:
    args = ["--max-model-len=1024", "--kv-cache-memory-bytes=64M", *(["--enforce-eager"] if start.eager else [])]
    kept = {"key": "bench", "root": str(place.folder / "compiled"), "sizeBytes": 10**10}
    env = {"OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
    return {
        "revision": "1a2b3c4d",
        "model": {"path": str(place.order.root / "models" / place.order.key), "servedNames": ["bench"]},
        "engine": {"python": str(place.python), "args": args, "env": env},
        "limits": {"startDeadline_s": PATIENCE_S, "drain_s": 1, "propagation_s": 0},
        **({"compiled": kept} if start.compiled or start.keeps else {}),
    }


def _worker(place: Place, command: str, plan: str) -> list[str]:
    options = {"plan": plan, "termination-log": "termination-log", "runtime-folder": "run"}
    flags = [f"--{name}={place.folder / file}" for name, file in options.items()]
    return [sys.executable, "-m", "modelfleet_worker.main", command, *flags]


def _page_with(place: Place, process: "subprocess.Popen[bytes]", address: str, text: str) -> str:
    """The worker's page once it has this text."""
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s and process.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=10) as answer:
                page = str(answer.read().decode())
        except (urllib.error.URLError, OSError):
            page = ""
        if text in page:
            return page
        time.sleep(0.1)
    raise RuntimeError(f"the page never had {text}; the log ends:\n{_log(place)}")


def _log(place: Place) -> str:
    return (place.folder / "log").read_text(errors="replace")[-6000:]
