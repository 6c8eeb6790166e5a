"""The section of docs/benchmarks.md on the activator."""

import statistics
from collections.abc import Mapping
from typing import Any

WAYS = ("direct", "nginx", "activator")


def section(results: Mapping[str, Any]) -> list[str]:
    """The lines between the section's marks."""
    runs, held, wakes = results["runs"], results["holding"], results["waking"]
    cases = list(dict.fromkeys((run["mode"], run["clients"]) for run in runs))
    rows = [_row(runs, mode, clients, way) for mode, clients in cases for way in WAYS]
    each = held["activator_bytes"] / held["held"] / 1000
    return [
        "## The activator",
        f"`make bench-activator`: an engine of twenty events a stream, 0.1 s apart, its clients and the proxy between"
        f" them on one machine, {results['nginx'].partition('/')[2]} of nginx",
        "with one worker beside our one process; medians of rounds in turn. Load average of the machine at the end:"
        f" {results['loadAverage']:.1f}; where that is above its processors, CPU time is what can be compared. Run at"
        f" {results['at']}.",
        "",
        "| requests | at a time | way | requests/s | first byte, ms, median / p95 | added to the median, ms"
        " | CPU of the proxy, us a request | failed |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        *rows,
        "",
        f"Held: {held['held']:,} requests with bodies of {held['bodyBytes']} bytes take"
        f" {held['activator_bytes'] / 1e6:.0f} MB more than none ({each:.1f} kB each; nginx with as many that wait:"
        f" {held['nginx_bytes'] / 1e6:.0f} MB).",
        f"When a worker serves, {held['answered']:,} of them are answered, in {held['answered_s']:.1f} s.",
        "",
        f"Added to the first token after a start: from the moment in which the API server lists the worker as ready to"
        f" the first token at a client that waited, {wakes['median_ms']:.1f} ms median,",
        f"{wakes['most_ms']:.1f} ms at most, of {wakes['wakes']} wakes. Not in it: the kubelet's readiness probe and"
        " Kubernetes' own way from there to the EndpointSlice.",
    ]


def _row(runs: list[Mapping[str, Any]], mode: str, clients: int, way: str) -> str:
    def middle(of: str, figure: str) -> float:
        found = [r[figure] for r in runs if (r["mode"], r["clients"], r["way"]) == (mode, clients, of)]
        return statistics.median(found)

    ours = [r for r in runs if (r["mode"], r["clients"], r["way"]) == (mode, clients, way)]
    what = "streams" if mode == "stream" else "short answers"
    added = middle(way, "first_median_ms") - middle("direct", "first_median_ms")
    told = "" if way == "direct" else f"{added:+.2f}"
    cpu = "" if way == "direct" else f"{middle(way, 'cpu_us_per_request'):.0f}"
    return (
        f"| {what} | {clients:,} | {way} | {middle(way, 'rate_rps'):.0f} | {middle(way, 'first_median_ms'):.2f} /"
        f" {middle(way, 'first_p95_ms'):.2f} | {told} | {cpu} | {sum(r['failed'] for r in ours)} |"
    )
