"""What the benchmark prints: its section of docs/benchmarks.md."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.overhead.figures import PERIOD_S, percent

_BOUND_PERCENT = 1.0
_STEP_MS = 10.0
_JUDGED = ("throughput lost", "tpot")
_SIDE = ("core_us", "api_us")


def section(results: Mapping[str, Any]) -> list[str]:
    """The lines between the section's marks."""
    alone = results["alone"]
    return [
        "## What the worker's layers cost",
        f"`make bench-overhead`, run at {results['at']}. The layers in the engine's processes, each alone, the fastest"
        " of many rounds, in microseconds of CPU:",
        f"{alone['chunk_us']:.2f} a chunk of a stream, {alone['request_us']:.1f} a request;",
        *(_alone(shape, alone) for shape in results["shapes"]),
        *_turned(results["runs"]),
    ]


def _turned(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    if not runs:
        return ["", "Not run: layers in and out of one engine."]
    bounded = [run for run in runs if "costs" in run]
    return [
        "",
        "One engine behind supervisor, gate and plugin under a steady load of streams of"
        f" {' and '.join(str(run['shape']['tokens']) for run in runs)} tokens. Our layers in its processes are turned",
        f"in and out every {1000 * PERIOD_S:g} ms, in turns of in, out, out, in (one block). Out means: vLLM's own"
        " methods and stat loggers alone, no details of steps from the engine's core, chunks straight to",
        "uvicorn, no look at the event loop. In means all of them. The first two steps of each window are left out."
        " The status port is asked as the kubelet and the operator ask it all the time.",
        "The worker sees its own processes alone, as in a pod. The model is a tiny one and lives in the process of the"
        " engine's core, as it does on one GPU.",
        *(line for run in runs for line in ("", measured(run))),
        "",
        "| streams | cost of the layers | values | SD of blocks | median | at most (95 %) | mean | at most (95 %) |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        *(_cost(run, name) for run in bounded for name in run["costs"]),
        "",
        "| streams | layers | tokens/s | TPOT, ms | CPU us a token | engine core | API server |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *(_side(run, name) for run in bounded for name in run["sides"]),
        "",
        "What is not turned is added to the bounds: the gate at a request's beginning and end, as measured alone, at"
        " these requests a second; and our supervisor, as what it would take from",
        "an engine that leaves no processor free.",
        *(line for run in bounded for line in ("", _added(run), _apart(run), _verdict(run))),
        *(
            f"No bound with {run['shape']['streams']} streams: too few good blocks."
            for run in runs
            if run not in bounded
        ),
    ]


def measured(run: Mapping[str, Any]) -> str:
    """What was measured and left out in one run."""
    return (
        f"{run['shape']['streams']} streams, steps of {run['step_ms']:.2f} ms: {run['blocks']} blocks of"
        f" {run['windows']} windows; left out with their blocks: {run['late']} windows in which a process turned too"
        f" late, {run['unread']} in which most tokens came in heaps, because the API server or the"
        f" client had no time. Load average at the end: {run['loadAverage']:.1f} on {run['processors']} processors."
    )


def _cost(run: Mapping[str, Any], name: str) -> str:
    one = run["costs"][name]
    numbers = (one["median"], one["median_upper"], one["mean"], one["mean_upper"])
    blocks = f"{one['count']}" if one["grouped"] == 1 else f"{one['count']} of {one['grouped']} blocks each"
    return (
        f"| {run['shape']['streams']} | {name} | {blocks} | {100 * one['spread']:.1f} %"
        f" | {' | '.join(f'{percent(each):+.2f} %' for each in numbers)} |"
    )


def _side(run: Mapping[str, Any], name: str) -> str:
    one = run["sides"][name]
    parts = [one[key] for key in _SIDE]
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
    step_us, cost = 1000 * run["sides"]["out"]["tpot_ms"], run["costs"]["tpot"]
    share = 100 * one["mean_upper"] * streams / (_STEP_MS * 1000)
    return (
        f"With {streams} streams the layers take {one['mean']:+.2f} us of CPU a token (mean; at most"
        f" {one['mean_upper']:.2f}; median {one['median']:+.2f}, at most {one['median_upper']:.2f}) and make a step"
        f" {step_us * percent(cost['mean']) / 100:+.1f} us longer (at most"
        f" {step_us * percent(cost['mean_upper']) / 100:.1f}). Of a step of {_STEP_MS:g} ms with as many streams that"
        f" CPU is at most {share:.2f} %."
    )


def _apart(run: Mapping[str, Any]) -> str:
    apart = run["apart"]
    return (
        f"Not turned: requests {100 * apart['requests']:.3f} %; the supervisor takes"
        f" {100 * run['supervisor_cores']:.2f} % of a core, {100 * apart['supervisor']:.2f} % of {run['processors']}."
    )


def _verdict(run: Mapping[str, Any]) -> str:
    """By the worse of both upper bounds, with what is not turned."""
    apart = 100 * sum(run["apart"].values())
    worst = {name: (run["costs"][name]["mean_upper"], run["costs"][name]["median_upper"]) for name in _JUDGED}
    kept = all(percent(max(both)) + apart <= _BOUND_PERCENT for both in worst.values())
    said = "; ".join(
        f"{name} at most {percent(mean) + apart:+.2f} % by the mean, {percent(median) + apart:+.2f} % by the median"
        for name, (mean, median) in worst.items()
    )
    word = "within" if kept else "not within"
    return f"Against the bound of {_BOUND_PERCENT:g} %, {run['shape']['streams']} streams: {word} ({said})."
