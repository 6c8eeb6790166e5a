"""What our layers cost: `python -m benchmarks.overhead OUTPUT`.

One engine behind our worker takes the same load again and again, its layers in for a few seconds, then out for as long.
So memory layout, the placing of processes and the machine's slow drift are alike on both sides of each pair. That the
switch itself hides nothing is looked at beside it: workers and engines that never had a layer, in pairs of processes.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from math import log
from pathlib import Path
from typing import Any

from benchmarks.goodput.docs_section import write
from benchmarks.overhead import engines, load, section
from benchmarks.overhead.engines import Segment
from benchmarks.overhead.figures import Bound, bound

_SHAPES = (load.Shape(streams=8, tokens=256, waves=1), load.Shape(streams=32, tokens=128, waves=1))
_BLOCKS = int(os.environ.get("BENCH_OVERHEAD_BLOCKS", "60"))
"""Of each shape: in, out, out, in, which makes two pairs, and no drift that is straight counts for one side. With 0 no
engine is started, and only what each layer takes alone is shown."""
_MOST_S = float(os.environ.get("BENCH_OVERHEAD_SECONDS", "480"))
"""After so long no further block of a shape begins: what was measured is shown, with how many pairs there are."""
_STARTS, _BLOCKS_OF_START = int(os.environ.get("BENCH_OVERHEAD_STARTS", "4")), 4
_COSTS = ("throughput lost", "tpot", "median time between tokens", "cpu per token")

Pair = tuple[Segment, Segment]


def main(output: Path) -> None:
    """Everything, in one run."""
    alone = engines.parts_alone([shape.streams for shape in _SHAPES])
    switched = asyncio.run(in_one_process()) if _BLOCKS else []
    starts = [asyncio.run(in_processes(_SHAPES[0], number)) for number in range(_STARTS)]
    results = {
        "shapes": [vars(shape) for shape in _SHAPES],
        "alone": alone,
        "switched": switched,
        "starts": starts,
        "at": time.strftime("%Y-%m-%d %H:%M"),
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(results, indent=1) + "\n")
    lines = section.section(results)
    print("\n".join(lines))
    write("overhead", lines)


async def in_one_process() -> list[dict[str, Any]]:
    """Pairs of segments of one engine, its layers in and out, of each shape."""
    with tempfile.TemporaryDirectory(prefix="overhead-") as folder:
        async with engines.layered(Path(folder)) as server:
            runs = [_results(shape, await _pairs(server, shape)) for shape in _SHAPES]
            print(f"measured again, because the client had no time to read: {server.again} segments")
            return runs


async def _pairs(server: engines.Layered, shape: load.Shape) -> list[Pair]:
    pairs: list[Pair] = []
    until_s = time.monotonic() + _MOST_S
    for number in range(-1, _BLOCKS):
        if time.monotonic() > until_s:
            break
        block = await _block(server, shape)
        if number >= 0:  # the engine has warmed up
            pairs += block
            print(section.block(shape.streams, number, block), flush=True)
    return pairs


async def _block(server: engines.Layered, shape: load.Shape) -> list[Pair]:
    server.put_in()
    first = await server.segment(shape)
    await server.take_out()
    second, third = await server.segment(shape), await server.segment(shape)
    server.put_in()
    fourth = await server.segment(shape)
    await server.take_out()
    return [(first, second), (fourth, third)]


async def in_processes(shape: load.Shape, number: int) -> dict[str, float]:
    """A worker and an engine that never had a layer, side by side: means of the logarithms of ratios, of this start."""
    pairs: list[Pair] = []
    with tempfile.TemporaryDirectory(prefix="overhead-") as folder:
        async with engines.layered(Path(folder)) as ours, engines.bare(Path(folder)) as alone:
            ours.put_in()
            for block in range(-1, _BLOCKS_OF_START):
                first = await ours.segment(shape)
                second, third = await alone.segment(shape), await alone.segment(shape)
                fourth = await ours.segment(shape)
                pairs += [(first, second), (fourth, third)] if block >= 0 else []
    found = {name: sum(values) / len(values) for name, values in _costs(pairs).items()}
    print(section.start(number, found), flush=True)
    return found


def _costs(pairs: Sequence[Pair]) -> dict[str, list[float]]:
    """Logarithms of ratios, above 0 where ours is worse."""
    each = (
        [log(out.tokens_per_s / within.tokens_per_s) for within, out in pairs],
        [log(within.served.tpot_s / out.served.tpot_s) for within, out in pairs],
        [log(within.served.gap_s / out.served.gap_s) for within, out in pairs],
        [log(within.cpu_us_per_token / out.cpu_us_per_token) for within, out in pairs],
    )
    return dict(zip(_COSTS, each, strict=True))


def _results(shape: load.Shape, pairs: Sequence[Pair]) -> dict[str, Any]:
    added_us = [within.cpu_us_per_token - out.cpu_us_per_token for within, out in pairs]
    sides = {"in": [within for within, _ in pairs], "out": [out for _, out in pairs]}
    return {
        "shape": vars(shape),
        "pairs": len(pairs),
        "costs": {name: _bounded(values) for name, values in _costs(pairs).items()},
        "added_us_per_token": _bounded(added_us),
        "sides": {name: _side(segments) for name, segments in sides.items()},
        "loadAverage": os.getloadavg()[0],
    }


def _bounded(values: Sequence[float]) -> dict[str, float]:
    """Bounds of the pairs' mean in each block: the two pairs of a block are not independent, blocks are."""
    found: Bound = bound([(one + other) / 2 for one, other in zip(values[::2], values[1::2], strict=True)])
    return vars(found)


def _side(segments: Sequence[Segment]) -> dict[str, float]:
    """Sums over all segments of one side."""
    tokens = sum(one.tokens for one in segments)
    return {
        "tokens_per_s": tokens / sum(one.served.wall_s for one in segments),
        "tpot_ms": 1000 * sum(one.served.tpot_s for one in segments) / len(segments),
        "core_us": 1e6 * sum(one.cpu.core_s for one in segments) / tokens,
        "api_us": 1e6 * sum(one.cpu.api_s for one in segments) / tokens,
        "supervisor_us": 1e6 * sum(one.cpu.supervisor_s for one in segments) / tokens,
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
