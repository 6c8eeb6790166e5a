"""What our layers cost: `python -m benchmarks.overhead OUTPUT`.

One engine behind our worker takes a steady load, and the layers in its processes are turned in and out every some
milliseconds (layer_switch.py). So memory layout, the placing of processes and the machine's drift are alike on both
sides. What cannot be turned is measured apart and added to the bounds: the gate around a request's beginning and end,
and our supervisor.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.goodput.docs_section import write
from benchmarks.overhead import engines, figures, load, section

_SHAPES = (load.Shape(streams=8, tokens=2000), load.Shape(streams=32, tokens=2000))
_SECONDS = float(os.environ.get("BENCH_OVERHEAD_SECONDS", "600"))
"""For each shape. With 0 no engine is started, and only what each layer takes alone is shown."""

_PROCESSORS = len(os.sched_getaffinity(0))
_FEWEST = 20
"""Good blocks of a shape. With fewer no bound is shown."""


def main(output: Path) -> None:
    """Everything, in one run."""
    alone = engines.parts_alone([shape.streams for shape in _SHAPES])
    results = {
        "shapes": [vars(shape) for shape in _SHAPES],
        "alone": alone,
        "runs": asyncio.run(_runs(alone["request_us"])) if _SECONDS else [],
        "at": time.strftime("%Y-%m-%d %H:%M"),
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(results, indent=1) + "\n")
    lines = section.section(results)
    print("\n".join(lines))
    write("overhead", lines)


async def _runs(request_us: float) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="overhead-") as folder:
        async with engines.layered(Path(folder)) as server:
            return [_results(shape, await server.measure(shape, _SECONDS), request_us) for shape in _SHAPES]


def _results(shape: load.Shape, run: engines.Run, request_us: float) -> dict[str, Any]:
    seen = figures.windows(run.noted)
    measured = {
        "shape": vars(shape),
        "step_ms": 1000 * seen.step_s,
        "windows": len(seen.tokens),
        "blocks": len(figures.blocks(seen)),
        "late": int(seen.late.sum()),
        "unread": int((seen.unread & ~seen.late).sum()),
        "processors": _PROCESSORS,
        "loadAverage": os.getloadavg()[0],
    }
    print(section.measured(measured), flush=True)
    return measured if measured["blocks"] < _FEWEST else measured | _bounds(shape, run, seen, request_us)


def _bounds(shape: load.Shape, run: engines.Run, seen: figures.Windows, request_us: float) -> dict[str, Any]:
    costs, added_us = figures.costs(seen)
    sides = {"in": figures.side(seen, ours=True), "out": figures.side(seen, ours=False)}
    return {
        "costs": {name: vars(figures.bound(values)) for name, values in costs.items()},
        "added_us_per_token": vars(figures.bound(added_us)),
        "sides": sides,
        "supervisor_cores": run.supervisor_cores,
        "apart": {
            "requests": request_us / shape.tokens * sides["out"]["tokens_per_s"] / 1e6,
            "supervisor": run.supervisor_cores / _PROCESSORS,
        },
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
