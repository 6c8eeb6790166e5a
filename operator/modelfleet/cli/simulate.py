"""`modelfleet simulate`: scaling policies on a trace, as share inside the promise against accelerator-hours."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any

from modelfleet.cli import simulate_flags
from modelfleet.cli.fields import clipped
from modelfleet.cli.simulate_flags import FlagError, TraceError
from modelfleet.cli.simulate_text import document, table
from modelfleet.cli.terminal import show
from modelfleet.sim import contest
from modelfleet.sim.contest import ORACLE, OURS, STATIC, Curve, Rule, best_static, curve, oracle, rules
from modelfleet.sim.world import World, WorldError, build


class Output(StrEnum):
    """How the result is printed."""

    TABLE = "table"
    JSON = "json"


def register(commands: Any) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser(
        "simulate",
        help="run scaling policies on a trace and compare share and accelerator-hours",
        description="Simulates a fleet of one model under a trace: the operator's own policy, the rules of others, the"
        " best constant number (with hindsight) and an oracle that knows the future. Each policy is a curve over its"
        " own parameter; costs are compared at equal share. Deterministic for --seed. 0: done; 2: the question cannot"
        " be read.",
    )
    simulate_flags.add_arguments(parser)
    parser.add_argument(
        "--policy", default="all", metavar="LIST",
        help=f"all, or names such as {OURS},{STATIC},{ORACLE},kpa,hpa-running; default: all",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="the first seed; default: 1")
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="how many; default: 1")
    parser.add_argument("-o", "--output", type=Output, choices=list(Output), default=Output.TABLE, metavar="FORMAT",
                        help="table or json; default: table")  # fmt: skip
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Simulates and prints. 0: done; 2: the question cannot be read."""
    try:
        setting = simulate_flags.setting_of(arguments)
        if not 1 <= arguments.seeds <= 100:
            raise FlagError(f"--seeds: {arguments.seeds} must be from 1 to 100")
        trace = simulate_flags.trace_of(arguments, arguments.seed)
        case, notes = simulate_flags.case_of(arguments, trace)
        world = build(case, trace, setting)
        seeds = range(arguments.seed, arguments.seed + arguments.seeds)
        notes = (*notes, *contest.notes(world))
        curves = list(_curves(world, arguments.policy, seeds))
    except (FlagError, TraceError, WorldError) as error:
        print(f"modelfleet: {error}", file=sys.stderr)
        return 2
    if arguments.output is Output.JSON:
        print(json.dumps(document(world, curves, seeds, notes), indent=2, allow_nan=False))
    else:
        show(table(world, curves, seeds, notes))
    return 0


def _curves(world: World, wanted: str, seeds: Sequence[int]) -> Iterator[Curve]:
    known = {rule.name: rule for rule in rules(world)}
    every = [*known, STATIC, ORACLE]
    names = every if wanted == "all" else list(dict.fromkeys(name.strip() for name in wanted.split(",")))
    unknown = [name for name in names if name not in every]
    if unknown:
        raise FlagError(f"--policy: {clipped(unknown[0])} is none of all, {', '.join(every)}")
    for number, name in enumerate(names):
        _progress(number, len(names), name)
        yield _curve(world, name, known, seeds)
    _progress(len(names), len(names), "")


def _curve(world: World, name: str, known: dict[str, Rule], seeds: Sequence[int]) -> Curve:
    if name == STATIC:
        return best_static(world, seeds)
    return oracle(world, seeds) if name == ORACLE else curve(world, known[name], seeds)


def _progress(done: int, of: int, name: str) -> None:
    """A bar for people: only where standard error is a terminal."""
    if sys.stderr.isatty():
        bar = "#" * round(30 * done / of)
        end = "" if done < of else "\n"
        print(f"\r[{bar:<30}] {done}/{of} {name:<24}", end=end, file=sys.stderr, flush=True)
