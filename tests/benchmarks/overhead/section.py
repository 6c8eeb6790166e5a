"""What the benchmark prints, and its section of docs/benchmarks.md."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.overhead.figures import percent

_BOUND_PERCENT = 1.0
_STEP_MS = 10.0
_PROCESSES = (("core_us", "engine core"), ("api_us", "API server"), ("supervisor_us", "supervisor"))


def block(streams: int, number: int, pairs: Sequence[Any]) -> str:
    """One block as it is measured."""
    sides = (("in", [within for within, _ in pairs]), ("out", [out for _, out in pairs]))
    return f"{streams} streams, block {number}: " + "; ".join(
        f"{name} {' '.join(f'{one.cpu_us_per_token:.1f}' for one in segments)} us CPU a token,"
        f" tpot {' '.join(f'{one.served.tpot_s * 1000:.3f}' for one in segments)} ms,"
        f" {' '.join(f'{one.tokens_per_s:.0f}' for one in segments)} tokens/s"
        for name, segments in sides
    )


def start(number: int, found: Mapping[str, float]) -> str:
    """One pair of processes as it is measured."""
    return f"processes {number}: " + ", ".join(f"{name} {percent(value):+.2f} %" for name, value in found.items())


def section(results: Mapping[str, Any]) -> list[str]:
    """The lines between the section's marks."""
    alone = results["alone"]
    return [
        "## What the worker's layers cost",
        f"`make bench-overhead`, run at {results['at']}. The layers in the engine's processes, each alone, the fastest"
        " of many rounds, in microseconds of CPU:",
        f"{alone['chunk_us']:.2f} a chunk of a stream, {alone['request_us']:.1f} a request;",
        *(_alone(shape, alone) for shape in results["shapes"]),
        *_switched(results["switched"]),
        *_starts(results["starts"]),
    ]


def _switched(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    if not runs:
        return ["", "Not run: pairs within one engine."]
    shown = ", ".join(f"{run['shape']['streams']} streams: {run['pairs']} pairs" for run in runs)
    return [
        "",
        "One engine behind supervisor, gate and plugin under a steady load of streams of"
        f" {' and '.join(str(run['shape']['tokens']) for run in runs)} tokens; our layers are in for a segment of a",
        "second or two, then out for as long, in turns of in, out, out, in. Out means: the application without the"
        " gate, vLLM's own methods and stat loggers alone, no details of steps from the",
        "engine's core, the supervisor stopped; what it does every two seconds it makes up for while the layers are in."
        " In means all of them, with the status port asked as the kubelet and the",
        f"operator ask it. {shown}. The model is a tiny one and lives in the process of the engine's core, as it does"
        " on one GPU. Load average of the machine at the",
        f"end of each: {', '.join(format(run['loadAverage'], '.1f') for run in runs)}; where that is above its"
        " processors, other work is most of what the bounds show.",
        "",
        "| streams | cost of the layers | median of the pairs | at most (95 %) | mean | at most (95 %) |",
        "| --- | --- | --- | --- | --- | --- |",
        *(_cost(run, name) for run in runs for name in run["costs"]),
        "",
        "| streams | layers | tokens/s | TPOT, ms | CPU us a token | engine core | API server | supervisor |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        *(_side(run, name) for run in runs for name in run["sides"]),
        "",
        *(_added(run) for run in runs),
        *(_verdict(run) for run in runs),
    ]


def _cost(run: Mapping[str, Any], name: str) -> str:
    one = run["costs"][name]
    numbers = (one["median"], one["median_upper"], one["mean"], one["mean_upper"])
    return f"| {run['shape']['streams']} | {name} | {' | '.join(f'{percent(each):+.2f} %' for each in numbers)} |"


def _side(run: Mapping[str, Any], name: str) -> str:
    one = run["sides"][name]
    parts = [one[key] for key, _ in _PROCESSES]
    return (
        f"| {run['shape']['streams']} | {name} | {one['tokens_per_s']:.0f} | {one['tpot_ms']:.3f} | {sum(parts):.1f}"
        f" | {' | '.join(f'{part:.1f}' for part in parts)} |"
    )


def _alone(shape: Mapping[str, Any], alone: Mapping[str, Any]) -> str:
    """What the parts add up to for one token of this load."""
    streams, tokens = shape["streams"], shape["tokens"]
    step = alone["step_us"][str(streams)]
    step_us = step["core"] + step["api"]
    token_us = step_us / streams + alone["chunk_us"] + alone["request_us"] / tokens
    return (
        f"a step of {streams} streams {step['core']:.1f} in the core and {step['api']:.1f} in the API server, together"
        f" {token_us:.2f} a token of streams of {tokens}, which is"
        f" {100 * token_us * streams / (_STEP_MS * 1000):.2f} % of a step of {_STEP_MS:g} ms."
    )


def _added(run: Mapping[str, Any]) -> str:
    one, streams = run["added_us_per_token"], run["shape"]["streams"]
    share = 100 * one["median_upper"] * streams / (_STEP_MS * 1000)
    step_ms = run["sides"]["out"]["tpot_ms"]
    return (
        f"With {streams} streams the layers take {one['median']:+.2f} us of CPU a token (median; at most"
        f" {one['median_upper']:.2f}). A step is {step_ms:.2f} ms here; of one of {_STEP_MS:g} ms with as many streams"
        f" that were at most {share:.2f} %."
    )


def _verdict(run: Mapping[str, Any]) -> str:
    worst = {name: percent(run["costs"][name]["median_upper"]) for name in ("throughput lost", "tpot")}
    kept = all(value <= _BOUND_PERCENT for value in worst.values())
    said = ", ".join(f"{name} at most {value:+.2f} %" for name, value in worst.items())
    word = "within" if kept else "not within"
    return f"Against the bound of {_BOUND_PERCENT:g} %, {run['shape']['streams']} streams: {word} ({said})."


def _starts(starts: Sequence[Mapping[str, float]]) -> list[str]:
    if not starts:
        return ["", "Not run: pairs of processes."]
    each = "; ".join(f"{name} {', '.join(f'{percent(one[name]):+.1f}' for one in starts)} %" for name in starts[0])
    return [
        "",
        f"{len(starts)} times a worker and an engine that never had a layer were started side by side: {each}. Two"
        " starts of one program differ by as much, so these say only",
        "that nothing large lies outside of the switch: it can't see what our code costs by being loaded (memory, the"
        " collector's work), the call through the gate's object, and",
        "that the engine's output goes through the supervisor, whose reading is in it while the layers are in.",
    ]
