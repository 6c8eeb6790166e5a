"""Where the seconds of a start go on the real engine, with and without caches: `make bench-cold-start`.

A worker as it runs in a pod, the engine compiling as it does by default. What a pod waits for before its containers run
(a node, the image) is not in it: no cache of ours changes that.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks.cold_start.cold_start_section import PHASES, VARIANTS, line, section
from benchmarks.cold_start.measured_start import Place, Start, measured_start
from benchmarks.goodput.docs_section import write
from fetch_runs import HUB
from modelfleet_local import engine
from modelfleet_local.paths import cache_dir
from weight_servers import HubHandler, Shelf, serving

SHAPE = {
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 4,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
}
_MAKE = (
    "import json, sys; sys.path.insert(0, sys.argv[2]); import tiny_model; tiny_model.SHAPE = json.loads(sys.argv[3]);"
    " tiny_model.main()"
)


def main() -> int:
    """Prints a line for each start, then the medians; writes the results, and the section of docs/benchmarks.md."""
    parser = argparse.ArgumentParser(prog="make bench-cold-start")
    parser.add_argument("output", type=Path)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=60.0, help="no further repetition is begun after that")
    asked = parser.parse_args()
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no engine outlives us
    with tempfile.TemporaryDirectory(prefix="bench-cold-", dir="/tmp") as folder:
        for results in _measured(Path(folder), asked.repetitions, asked.minutes * 60):
            asked.output.write_text(json.dumps(results, indent=1))
            text = section(results)
            write("cold-start", text)
    print("\n".join(text))
    return 0


def _measured(folder: Path, repetitions: int, limit_s: float) -> Iterator[dict[str, Any]]:
    """The results after each repetition."""
    environment = engine.require_engine(cache_dir())
    files = _model(environment, folder / "model")
    runs: list[dict[str, Any]] = []
    began_s = time.monotonic()
    with _hub(files) as address:
        for index in range(repetitions):
            runs += list(_repetition(folder / str(index), environment, address, index))
            yield {
                "at": datetime.now(UTC).isoformat(timespec="minutes"),
                "modelBytes": sum(map(len, files.values())),
                "asked": repetitions,
                "repetitions": index + 1,
                "loadAverage": os.getloadavg()[0],
                "runs": runs,
            }
            if time.monotonic() - began_s > limit_s:
                break


def _repetition(folder: Path, environment: Path, address: str, index: int) -> Iterator[dict[str, Any]]:
    """One start of each variant on one store; the first fills it, and the others take turns."""
    folder.mkdir()
    first, *others = VARIANTS
    for variant in (first, *others[index % len(others) :], *others[: index % len(others)]):
        place = Place(
            folder=folder,
            python=environment / "bin/python",
            order=HUB.order(address, folder / "store"),
            secret=HUB.secret,
            # as in a pod, where it is always /tmp; Unix sockets in it may have 107 bytes
            scratch=Path("/tmp/bench-cold-scratch"),
        )
        found = measured_start(place, Start(compiled=variant.compiled, eager=variant.eager, keeps=variant is first))
        run = {"variant": variant.name, "repetition": index, **{name: found.get(name, 0.0) for name in PHASES}}
        print(line(run), flush=True)
        yield run
    shutil.rmtree(folder)


def _model(environment: Path, folder: Path) -> Mapping[str, bytes]:
    """The demo's model, made larger."""
    script = Path(engine.__file__).parents[1] / "engine"
    argv = [str(environment / "bin/python"), "-c", _MAKE, str(folder), str(script), json.dumps(SHAPE)]
    subprocess.run(argv, check=True, env={"HF_HUB_OFFLINE": "1", "PATH": os.environ["PATH"]}, capture_output=True)
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


@contextmanager
def _hub(files: Mapping[str, bytes]) -> Iterator[str]:
    """A hub in a process of its own."""
    ours, theirs = get_context("fork").Pipe()
    server = get_context("fork").Process(target=_serve, args=(theirs, files), daemon=True)
    server.start()
    try:
        yield str(ours.recv())
    finally:
        server.kill()


def _serve(ready: Connection, files: Mapping[str, bytes]) -> None:
    with serving(HubHandler, Shelf(dict(files))) as address:
        ready.send(address)
        ready.recv()


if __name__ == "__main__":
    sys.exit(main())
