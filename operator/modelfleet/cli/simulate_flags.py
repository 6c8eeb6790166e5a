"""From flags to a simulated world: which case, which trace, which promise."""

import argparse
from collections.abc import Callable
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

from modelfleet.api.values import PositiveDuration, Share
from modelfleet.cli.cases import asked
from modelfleet.cli.fields import RowError, clipped
from modelfleet.cli.models import lookup
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.memory import memory_use
from modelfleet.sim.capacity import Promise
from modelfleet.sim.fleet import Routing
from modelfleet.sim.shapes import HELP, Regime, shaped
from modelfleet.sim.traces import MOST_HOURS, Choice, Trace, TraceError, read_trace
from modelfleet.sim.world import Setting

T = TypeVar("T")
TENSOR = (1, 2, 4, 8)
PHASES = ("node", "fetch", "load")


class FlagError(ValueError):
    """A flag that cannot be used; the message is a sentence for the user."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the world."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--trace", metavar="FILE", help="requests: CSV or JSON lines with arrivals and token counts")
    source.add_argument("--shape", metavar="SHAPE", help=HELP)
    parser.add_argument("--model", required=True, metavar="MODEL", help="the model's config.json or a known name")
    parser.add_argument("--class", dest="class_name", required=True, metavar="NAME", help="a class of the catalogue")
    parser.add_argument("--tensor", metavar="N", help="accelerators of a replica; default: the fewest that fit")
    parser.add_argument("--precision", metavar="SCHEME", help="of the weights; default: as published")
    parser.add_argument("--token-budget", metavar="N", help="tokens that a step takes; default: the engine's")
    parser.add_argument("--ttft", default="2s", metavar="TIME", help="time to the first token; default: 2s")
    parser.add_argument("--tpot", default="50ms", metavar="TIME", help="time per output token; default: 50ms")
    parser.add_argument("--share", default="99%", metavar="SHARE", help="of requests inside both; default: 99%%")
    parser.add_argument(
        "--cold-start", default="3m", metavar="TIME",
        help="of a replica, or its phases: node=90s,fetch=60s,load=30s, where a node that a replica left less than ten"
        " minutes ago needs the last only; default: 3m",
    )  # fmt: skip
    parser.add_argument("--supply", metavar="N", help="replicas that there are nodes for; default: as many as wanted")
    parser.add_argument("--min-replicas", default="1", metavar="N", help="default: 1")
    parser.add_argument("--max-replicas", default="64", metavar="N", help="default: 64")
    parser.add_argument(
        "--capacity-error", default="20%", metavar="SHARE",
        help="policies are told a capacity that is wrong by up to this; default: 20%%",
    )  # fmt: skip
    parser.add_argument("--failures-per-hour", default="0", metavar="RATE", help="of one replica; default: 0")
    parser.add_argument("--routing", type=Routing, choices=list(Routing), default=Routing.RANDOM, metavar="HOW",
                        help="random (a Service) or least-of-two (a load-aware router); default: random")  # fmt: skip
    parser.add_argument(
        "--admission", choices=("plan", "none"), default="plan", metavar="HOW",
        help="plan: engines refuse above the limits of a plan; none: everything queues; default: plan",
    )  # fmt: skip
    trace = parser.add_argument_group("of the trace")
    trace.add_argument("--series", metavar="NAME", help="of a file with several; default: the first")
    trace.add_argument("--from-hour", metavar="HOUR", help="where to begin; default: 0")
    trace.add_argument("--hours", metavar="HOURS", help="how long; default: all, 24 of a file of rates, 1 of a shape")
    trace.add_argument("--scale", metavar="FACTOR", help="multiplies the rate; default: as it is, or what can be run")
    trace.add_argument("--lengths", metavar="IN:OUT", help="median tokens of a shape's requests; default: 1000:200")
    trace.add_argument("--spread", metavar="SIGMA", help="of a shape's lengths, lognormal; 0: fixed; default: 0.8")
    trace.add_argument("--lengths-file", metavar="FILE", help="length mixtures for a file of rates")


_OF_FILES = {"series": "--series", "from_hour": "--from-hour", "scale": "--scale", "lengths_file": "--lengths-file"}
_OF_SHAPES = {"lengths": "--lengths", "spread": "--spread"}


def trace_of(arguments: argparse.Namespace, seed: int) -> Trace:
    """The trace. Raises FlagError or TraceError."""
    hours = None if arguments.hours is None else _number("--hours", arguments.hours, 0.01, MOST_HOURS)
    of_other, source, other = (
        (_OF_SHAPES, "--trace", "--shape") if arguments.shape is None else (_OF_FILES, "--shape", "--trace")
    )
    for name, flag in of_other.items():
        if getattr(arguments, name) is not None:
            raise FlagError(f"{flag}: it is of a {other}, and says nothing of a {source}; leave it out")
    if arguments.shape is not None:
        prompt, _, answer = ("1000:200" if arguments.lengths is None else arguments.lengths).partition(":")
        regime = Regime(
            input_tokens=_whole("--lengths", prompt, 1, 1_000_000),
            output_tokens=_whole("--lengths", answer, 1, 1_000_000),
            spread=_number("--spread", "0.8" if arguments.spread is None else arguments.spread, 0, 3),
        )
        return shaped(arguments.shape, regime, hours or 1.0, seed)
    choice = Choice(
        series=arguments.series,
        from_hour=_number("--from-hour", "0" if arguments.from_hour is None else arguments.from_hour, 0, 24 * 365),
        hours=hours,
        lengths=Path(arguments.lengths_file) if arguments.lengths_file else None,
        scale=None if arguments.scale is None else _number("--scale", arguments.scale, 1e-6, 1e4),
    )
    return read_trace(Path(arguments.trace), choice, seed)


def setting_of(arguments: argparse.Namespace) -> Setting:
    """The promise and what is around it. Raises FlagError."""
    low = _whole("--min-replicas", arguments.min_replicas, 1, 10_000)
    high = _whole("--max-replicas", arguments.max_replicas, 1, 10_000)
    if high < low:
        raise FlagError(f"--max-replicas: {high} is below --min-replicas ({low})")
    cold_start_s, warm_start_s = _cold_start(arguments.cold_start)
    return Setting(
        promise=Promise(
            ttft_s=_value("--ttft", PositiveDuration, arguments.ttft).seconds,
            tpot_s=_value("--tpot", PositiveDuration, arguments.tpot).seconds,
            share=float(_value("--share", Share, arguments.share).fraction),
        ),
        cold_start_s=cold_start_s,
        warm_start_s=warm_start_s,
        supply=None if arguments.supply is None else _whole("--supply", arguments.supply, 1, 10_000),
        min_replicas=low,
        max_replicas=high,
        capacity_error=_error(arguments.capacity_error),
        failures_per_hour=_number("--failures-per-hour", arguments.failures_per_hour, 0, 60),
        routing=arguments.routing,
        admission=arguments.admission == "plan",
    )


def case_of(arguments: argparse.Namespace, trace: Trace) -> tuple[Case, tuple[str, ...]]:
    """The replica, with the fewest accelerators that hold the model and the trace's longest request."""
    longest = max(one.input_tokens + one.output_tokens for one in trace.requests)
    degrees = TENSOR if arguments.tensor is None else (_whole("--tensor", arguments.tensor, 1, 64),)
    failed = ""
    for tensor in degrees:
        try:
            case, notes = _case(arguments, tensor)
        except RowError as error:
            if len(degrees) == 1 or tensor == degrees[0]:
                raise FlagError(_as_flag(str(error))) from error
            continue
        memory = memory_use(case)
        if memory.fits and memory.kv_tokens > longest:
            return case, notes
        failed = (
            memory.reason if not memory.fits else f"the cache holds {memory.kv_tokens} tokens, fewer than {longest}"
        )
    raise FlagError(f"--tensor: {arguments.model} does not fit {arguments.class_name} in {degrees[-1]}: {failed}")


def _case(arguments: argparse.Namespace, tensor: int) -> tuple[Case, tuple[str, ...]]:
    cells: dict[str, Any] = {"model": arguments.model, "class": arguments.class_name, "tp": str(tensor)}
    if arguments.precision:
        cells["precision"] = arguments.precision
    if arguments.token_budget:
        cells["token_budget"] = arguments.token_budget
    found = asked(cells, lookup())
    setup = replace(found.case.setup, sequence_cap=found.case.setup.sequence_cap or 256)
    kept = tuple(note for note in found.notes if "tokens assumed" not in note and "concurrency" not in note)
    return replace(found.case, setup=setup), kept


def _as_flag(message: str) -> str:
    """A row's fault names its column; a user of this command wrote a flag."""
    column, _, rest = message.partition(":")
    return f"--{'tensor' if column == 'tp' else column.replace('_', '-')}:{rest}"


def _cold_start(text: str) -> tuple[float, float | None]:
    """All phases together, and the last alone; None where no phases are given."""
    if "=" not in text:
        return _value("--cold-start", PositiveDuration, text).seconds, None
    phases = [part.strip().partition("=")[::2] for part in text.split(",")]
    if tuple(name for name, _ in phases) != PHASES:
        raise FlagError(f"--cold-start: {clipped(text)} must be one time, or node=TIME,fetch=TIME,load=TIME")
    seconds = [_value("--cold-start", PositiveDuration, each).seconds for _, each in phases]
    return sum(seconds), seconds[-1]


def _error(text: str) -> float:
    value = text.strip().removesuffix("%")
    return _number("--capacity-error", value, 0, 90) / 100 if text.strip().endswith("%") else _number(
        "--capacity-error", value, 0, 0.9
    )  # fmt: skip


def _value(flag: str, kind: Callable[[str], T], text: str) -> T:
    try:
        return kind(text)
    except ValueError as error:
        raise FlagError(f"{flag}: {error}") from error


def _number(flag: str, text: str, low: float, high: float) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value) or not low <= value <= high:
        raise FlagError(f"{flag}: {clipped(text)} must be a number from {low:g} to {high:g}")
    return value


def _whole(flag: str, text: str, low: int, high: int) -> int:
    if not text.strip().isdecimal() or not low <= int(text) <= high:
        raise FlagError(f"{flag}: {clipped(text)} must be a whole number from {low} to {high}")
    return int(text)


__all__ = ["FlagError", "TraceError", "add_arguments", "case_of", "setting_of", "trace_of"]
