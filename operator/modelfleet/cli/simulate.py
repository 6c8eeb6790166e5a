"""`modelfleet simulate`: scaling policies on a trace, as share inside the promise against accelerator-hours."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any

from modelfleet.cli import simulate_flags
from modelfleet.cli.fields import clipped
from modelfleet.cli.report.page import template
from modelfleet.cli.report.simulation import Course, html
from modelfleet.cli.simulate_flags import FlagError, TraceError
from modelfleet.cli.simulate_text import document, table
from modelfleet.cli.terminal import show
from modelfleet.cli.yaml_io import MissingExtraError
from modelfleet.sim import contest
from modelfleet.sim.contest import ORACLE, OURS, STATIC, Curve, Rule, best_static, curve, oracle, played, rules
from modelfleet.sim.equal_share import out_of_reach, sharpened
from modelfleet.sim.headroom import headroom
from modelfleet.sim.oracle import work_by_window
from modelfleet.sim.world import World, WorldError, build


class Output(StrEnum):
    """How the result is printed."""

    TABLE = "table"
    JSON = "json"
    HTML = "html"


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
                        help="table, json or html; default: table")  # fmt: skip
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Simulates and prints. 0: done; 2: the question cannot be read."""
    try:
        setting = simulate_flags.setting_of(arguments)
        if arguments.output is Output.HTML:
            template("simulation.html.j2")  # what is missing is told before minutes of work
        if not 1 <= arguments.seeds <= 100:
            raise FlagError(f"--seeds: {arguments.seeds} must be from 1 to 100")
        trace = simulate_flags.trace_of(arguments, arguments.seed)
        case, notes = simulate_flags.case_of(arguments, trace)
        world = build(case, trace, setting)
        seeds = range(arguments.seed, arguments.seed + arguments.seeds)
        notes = (*notes, *contest.notes(world))
        curves = sharpened(world, list(_curves(world, arguments.policy, seeds)), seeds)
        notes = (*notes, *out_of_reach(world, curves, seeds), *_headroom(world, curves, seeds[0]))
    except (FlagError, TraceError, WorldError, MissingExtraError) as error:
        print(f"modelfleet: {error}", file=sys.stderr)
        return 2
    match arguments.output:
        case Output.JSON:
            print(json.dumps(document(world, curves, seeds, notes), indent=2, allow_nan=False))
        case Output.HTML:
            print(html(document(world, curves, seeds, notes), _course(world, curves, seeds[0])))
        case _:
            show(table(world, curves, seeds, notes))
    return 0


def _headroom(world: World, curves: Sequence[Curve], seed: int) -> Iterator[str]:
    """What would have had to stand ready, where ours as shipped does not keep the promise on the first seed."""
    points = [point for each in curves if each.policy == OURS for point in each.points if point.parameter == each.usual]
    mine = next((point for point in points if point.seed == seed), None)
    promised = world.setting.promise.share
    if mine is None or mine.share >= promised:
        return
    found = headroom(world, seed)
    kept = (
        f"with minReplicas {found} it would have been kept"
        if found is not None
        else f"no minReplicas up to {_most(world)} would have kept it"
    )
    yield f"{OURS} keeps {mine.share:.4f}, not {promised:.4g}, on the first seed: {kept}"


def _most(world: World) -> str:
    site = world.site
    return f"{site.most}" if site.most == site.max_replicas else f"the supply of {site.most}"


def _course(world: World, curves: Sequence[Curve], seed: int) -> Course | None:
    """Ours as shipped once more, for its replicas over time."""
    if all(each.policy != OURS for each in curves):
        return None
    rule = next(each for each in rules(world) if each.name == OURS)
    requests = world.trace.requests
    load = work_by_window(requests, [world.work(one) for one in requests], world.trace.duration_s)
    steps = played(world, rule.make[rule.usual](seed), seed).course
    if not steps:  # shorter than a decision
        return None
    minutes = [load[at : at + 6] for at in range(0, len(load) - 1, 6)]
    return Course(
        steps=steps,
        load=[(60.0 * at + 30.0, sum(part) / len(part) / world.knee_rps) for at, part in enumerate(minutes)],
    )


def _curves(world: World, wanted: str, seeds: Sequence[int]) -> Iterator[Curve]:
    known = {rule.name: rule for rule in rules(world)}
    every = [*known, STATIC, ORACLE]
    names = list(dict.fromkeys(name.strip() for name in wanted.split(",")))
    names = every if "all" in names else names
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
