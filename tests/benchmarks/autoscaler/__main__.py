"""`make bench-autoscaler`: scaling policies on traces and shapes, as share and accelerator-hours at equal share.

Each case is what `modelfleet simulate --policy all -o json` prints, so that anyone can ask the same by hand, with two
seeds. SIZE=small runs four of them (most of an hour), SIZE=full all of them (hours; what was run before is used again,
see kept.py). Writes build/bench/autoscaler.json and the autoscaler's section of docs/benchmarks.md.
"""

import argparse
import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.autoscaler import kept
from modelfleet.cli import simulate_flags
from modelfleet.cli.simulate_text import document as simulated
from modelfleet.sim import contest
from modelfleet.sim.contest import ORACLE, OURS, STATIC
from modelfleet.sim.equal_share import out_of_reach, sharpened
from modelfleet.sim.world import build

ROOT = Path(__file__).parents[3]
DATA = Path(os.environ.get("MODELFLEET_DATA", ROOT.parent / "shared" / "data")) / "traces"
JSON = ROOT / "build" / "bench" / "autoscaler.json"
CURVES = ROOT / "build" / "bench" / "autoscaler-curves"
DOCS = ROOT / "docs" / "benchmarks.md"
MODEL = ("--model", "meta-llama/Llama-3.1-8B-Instruct")
COLD_STARTS = ("180s", "60s", "600s")
_BEGIN, _END = "<!-- autoscaler: begin, written by make bench-autoscaler -->", "<!-- autoscaler: end -->"
_GAP = 0.10
_CLOSED = 0.5

SOURCES = (
    "CONV is Azure's LLM inference trace of 2023, conversations (github.com/Azure/AzurePublicDataset, CC-BY 4.0), CODE"
    " its code trace, RATES ServeGen's arrival rates and lengths (github.com/alibaba/ServeGen, Apache-2.0)"
)
CONV = ("--trace", str(DATA / "AzureLLMInferenceTrace_conv.csv"), "--scale", "2", "--class", "l40s")
CODE = ("--trace", str(DATA / "AzureLLMInferenceTrace_code.csv"), "--class", "l40s")
RATES = ("--trace", str(DATA / "servegen_rate_10min.csv"), "--hours", "3", "--class", "l40s")
SINE = ("--shape", "sine:5-45,600s", "--class", "l40s")
BURST = ("--shape", "burst:4-16,10m", "--class", "l40s")
DYNAMO = (
    "--shape", "sine:5-45,600s", "--lengths", "3000:300", "--spread", "0", "--ttft", "200ms", "--tpot", "10ms",
    "--class", "h100-sxm",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Case:
    """One question: flags of `modelfleet simulate` besides model, cold start, policies and seeds."""

    name: str
    flags: tuple[str, ...]
    cold_start: str


def cases(size: str) -> tuple[list[Case], int]:
    """The cases of a size, and how many seeds. Raises SystemExit for a size that there is not."""
    if size == "small":
        half = (*SINE, "--hours", "0.5")
        return [
            Case(name="CONV, twice the rate", flags=CONV, cold_start="180s"),
            Case(name="CODE", flags=CODE, cold_start="180s"),
            Case(name="bursts of a minute from 4 to 16 requests a second, each 600 s", flags=BURST, cold_start="180s"),
            Case(name="sine of 5 to 45 requests a second, 600 s, for half an hour", flags=half, cold_start="180s"),
        ], 2
    if size == "full":
        named = {
            "CONV, twice the rate": CONV,
            "CODE": CODE,
            "RATES, three hours": RATES,
            "sine of 5 to 45 requests a second, 600 s": SINE,
            "the same of 3000/300 tokens, 200 ms, 10 ms (Dynamo's)": DYNAMO,
            "step from 4 to 16 requests a second": ("--shape", "step:4-16,1800s", "--class", "l40s"),
            "bursts of a minute from 4 to 16 requests a second, each 600 s": BURST,
        }
        return [Case(name=name, flags=flags, cold_start=at) for at in COLD_STARTS for name, flags in named.items()], 2
    raise SystemExit(f"SIZE={size} is neither small nor full")


def asked(case: Case, seeds: int) -> dict[str, Any]:
    """The document that `modelfleet simulate` prints for these flags."""
    parser = argparse.ArgumentParser()
    simulate_flags.add_arguments(parser)
    flags = parser.parse_args([*MODEL, *case.flags, "--cold-start", case.cold_start])
    trace = simulate_flags.trace_of(flags, 1)
    replica, notes = simulate_flags.case_of(flags, trace)
    world = build(replica, trace, simulate_flags.setting_of(flags))
    numbers = range(1, seeds + 1)
    name = re.sub(r"[^a-z0-9]+", "-", f"{case.name} {case.cold_start} {seeds}".lower())
    found = sharpened(world, kept.curves(world, numbers, CURVES / f"{name}.json"), numbers)
    return simulated(world, found, numbers, (*notes, *contest.notes(world), *out_of_reach(world, found, numbers)))


def verdict(found: dict[str, Any]) -> dict[str, Any]:
    """Ours against the cheapest causal peer and the oracle, all at the share that ours reached."""
    costs = {one["policy"]: one["acceleratorHoursAtOurShare"] for one in found["policies"]}
    peers = {
        one["policy"]: costs[one["policy"]]
        for one in found["policies"]
        if one["causal"] and one["policy"] != OURS and costs[one["policy"]] is not None
    }
    best = min(peers, key=lambda name: peers[name], default=None)
    static = next(one for one in found["policies"] if one["policy"] == STATIC)
    shipped = next(one for one in found["policies"] if one["policy"] == OURS)["asShipped"]
    mine, oracle = costs[OURS], costs[ORACLE]
    gap = peers[best] - oracle if best and oracle is not None else None
    return {
        "share": shipped["share"],
        "keepsPromise": shipped["share"] >= found["world"]["share"],
        "ours": mine,
        "bestPeer": best,
        "bestPeerHours": peers.get(best) if best else None,
        "oracle": oracle,
        "gapClosed": None if gap is None or gap <= _GAP * oracle else (peers[best] - mine) / gap,
        "constantNumber": static["points"] and _constant(static, found["world"]["share"]),
    }


def _constant(static: dict[str, Any], share: float) -> int | None:
    """The least constant number that keeps the share in the mean of the seeds: the headroom where load outruns a cold
    start."""
    shares: dict[int, list[float]] = {}
    for point in static["points"]:
        shares.setdefault(int(point["parameter"]), []).append(point["share"])
    return min((number for number, each in shares.items() if mean(each) >= share), default=None)


def lines(size: str, seeds: int, results: list[tuple[Case, dict[str, Any]]]) -> list[str]:
    """The section as Markdown."""
    ran = f"{len(results)} of {len(cases(size)[0])} cases"
    found = [
        f"`make bench-autoscaler SIZE={size}`: {ran}, {seeds} seed(s), Llama-3.1-8B. {SOURCES}."
        " Policies are told a capacity that is wrong by up to 20 %. Hours are accelerator-hours at the share that ours"
        ' reached; "-": no point of a curve reaches it. The oracle and the best constant number know the trace.',
        "",
        "| case | cold start | our share | hours | cheapest peer | its hours | oracle | gap closed | constant number |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    aims: list[str] = []
    for case, document in results:
        one = verdict(document)
        closed = "-" if one["gapClosed"] is None else f"{one['gapClosed']:.0%}"
        found.append(
            f"| {case.name} | {case.cold_start} | {one['share']:.4f} | {_hours(one['ours'])} |"
            f" {one['bestPeer'] or '-'} | {_hours(one['bestPeerHours'])} | {_hours(one['oracle'])} | {closed} |"
            f" {one['constantNumber'] or '-'} |"
        )
        aims += [f"- {case.name}, {case.cold_start}: {why}" for why in missed(one, document["world"]["share"])]
    found += ["", "Aims that are not reached:" if aims else "All aims are reached in these cases.", *aims, ""]
    for case, document in results:
        found += [*_table(case, document), ""]
    return found


def missed(one: dict[str, Any], share: float) -> list[str]:
    """The aims that are not reached, a sentence each."""
    why = []
    if not one["keepsPromise"]:
        number = one["constantNumber"]
        kept = "no constant number in the bounds" if number is None else f"a constant {number}"
        why.append(f"the share is {one['share']:.4f}, not {share:g}; {kept} would have kept it")
    if one["bestPeerHours"] is not None and one["ours"] > one["bestPeerHours"]:
        why.append(f"dearer than {one['bestPeer']} at equal share")
    if one["gapClosed"] is not None and one["gapClosed"] < _CLOSED:
        why.append("less than half of the gap between the cheapest peer and the oracle is closed")
    return why


def _table(case: Case, document: dict[str, Any]) -> list[str]:
    rows = [
        f"{case.name}, cold start {case.cold_start}; as shipped, hours at the promise and at our share:",
        "",
        "| policy | share | hours | good an hour | worst 5 min | actions | at the promise | at our share |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one in document["policies"]:
        shipped = one["asShipped"]
        if shipped is None:
            rows.append(f"| {one['policy']} | nothing inside the bounds keeps the share | | | | | | |")
            continue
        rows.append(
            f"| {one['policy']} | {shipped['share']:.4f} | {shipped['acceleratorHours']:.2f} |"
            f" {shipped['goodRequestsPerAcceleratorHour']:.0f} | {shipped['worst5MinutesShare']:.3f} |"
            f" {shipped['scaleActions']:.0f} | {_hours(one['acceleratorHoursAtPromise'])} |"
            f" {_hours(one['acceleratorHoursAtOurShare'])} |"
        )
    return rows


def _hours(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def main() -> None:
    """Runs the cases of a size; a missing data folder ends it with one sentence."""
    size = sys.argv[1] if len(sys.argv) > 1 else "small"
    chosen, seeds = cases(size)
    absent = sorted(
        {flag for case in chosen for flag in case.flags if flag.endswith(".csv") and not Path(flag).exists()}
    )
    if absent:
        raise SystemExit(
            f"{absent[0]} is missing; {SOURCES}. Put them into a folder traces, and its parent into MODELFLEET_DATA"
        )
    results = []
    for case in chosen:
        print(f"{case.name}, cold start {case.cold_start}", file=sys.stderr, flush=True)
        results.append((case, asked(case, seeds)))
        _write(size, seeds, results)  # after each: a long run that is stopped has not been for nothing
    print("\n".join(lines(size, seeds, results)))


def _write(size: str, seeds: int, results: list[tuple[Case, dict[str, Any]]]) -> None:
    text = lines(size, seeds, results)
    JSON.parent.mkdir(parents=True, exist_ok=True)
    JSON.write_text(
        json.dumps(
            [
                {"case": case.name, "coldStart": case.cold_start, "verdict": verdict(found), **found}
                for case, found in results
            ],
            indent=1,
        )
        + "\n"
    )
    before, _, rest = DOCS.read_text().partition(_BEGIN)
    _, found_end, after = rest.partition(_END)
    if not found_end:
        before, after = f"{before.rstrip()}\n\n## The autoscaler\n", "\n"
    DOCS.write_text("\n".join([before + _BEGIN, *text, _END]) + after)


if __name__ == "__main__":
    main()
