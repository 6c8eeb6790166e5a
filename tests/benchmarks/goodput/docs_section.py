"""What the benchmarks of this folder print, and their sections of docs/benchmarks.md."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_RUNS = 6
DOCS = Path(__file__).parents[3] / "docs" / "benchmarks.md"


def line(run: Mapping[str, Any]) -> str:
    """One run in one line."""
    limits, late = run["limits_ms"], run["firstTokenLaterAtClient_ms"]
    return (
        f"| {run['referee']} | {run['rate_rps']:g} | {limits['ttft']:.1f} / {limits['tpot']:.2f} | {run['sent']}"
        f" | {run['refereeGood']} ({run['share']:.0%}) | {run['ourGood']} | {run['differencePercent']:+.2f} %"
        f" | {len(run['differences'])} | {late['median']} / {late['p95']} |"
    )


def goodput(results: Mapping[str, Any]) -> list[str]:
    """The section on counters."""
    differing = [(run, one) for run in results["runs"] for one in run["differences"]]
    ends = results["ends"]
    return [
        "## Goodput counters against referees",
        "`make bench-goodput`: one real engine behind the supervisor. Each referee counts, by its own clock, the"
        " requests that kept both limits;",
        "our counters are read from port 8001. Poisson arrivals, prompts of 1800 tokens on average, a model of eight"
        f" layers. Load average of the machine at the end: {results['loadAverage']:.1f}.",
        "",
        "| referee | requests/s | limits ttft / tpot, ms | sent | good, referee | good, ours | difference of sent"
        " | requests judged differently | first token later at the client, ms, median / p95 |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        *map(line, results["runs"]),
        "",
        *([f"Ended early: {len(results['runs'])} of {_RUNS} runs.", ""] if len(results["runs"]) < _RUNS else []),
        *(f"Not run: {one.partition(':')[0]}; the command says why.\n" for one in results["notRun"]),
        "Requests judged differently, each with the time that decided:",
        "",
        *(
            f"- {run['referee']} at {run['rate_rps']:g}/s, {one['id']}: ours {one['ours']}, theirs {one['theirs']}:"
            f" {one['why']}"
            for run, one in differing
        ),
        *([] if differing else ["- none"]),
        "",
        f"Refused and left: of a crowd above the admission limit the client saw {_counts(ends['client'])}; our counters"
        f" say {_counts(ends['ourCounters'])}; requests that differ: {len(ends['differing'])}.",
    ]


def write(name: str, lines: Sequence[str]) -> None:
    """Replaces the section between its marks in docs/benchmarks.md, or adds it at the end."""
    begin, end = f"<!-- {name}: begin, written by make bench-{name} -->", f"<!-- {name}: end -->"
    text = DOCS.read_text()
    section = "\n".join([begin, *lines, end])
    if begin in text:
        head, _, rest = text.partition(begin)
        text = head + section + rest.partition(end)[2]
    else:
        text = text.rstrip("\n") + "\n\n" + section + "\n"
    DOCS.write_text(text)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
