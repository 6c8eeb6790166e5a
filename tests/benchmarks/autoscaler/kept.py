"""Curves that were run before, so that a bench of hours can be stopped and gone on with, and ours be run alone.

A curve is used again only where the same would come out: the rules' source is the same text, and a probe, one run of
that very world, ends with the same outcomes to the last digit. Ours is never kept: it is what changes.
"""

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from modelfleet.sim import contest, oracle
from modelfleet.sim.contest import ORACLE, OURS, STATIC, Curve, Point, best_static, curve, played, rules
from modelfleet.sim.peers import concurrency, kubernetes, series, serving
from modelfleet.sim.world import World

_SOURCES = (contest, oracle, concurrency, kubernetes, series, serving)
_TEXT = "".join(Path(str(module.__file__)).read_text() for module in _SOURCES)  # as imported, not as edited meanwhile


def curves(world: World, seeds: Sequence[int], path: Path) -> list[Curve]:
    """All policies' curves; `path` has those that were run before, and gets the new ones."""
    known = {rule.name: rule for rule in rules(world)}
    probe = _probe(world, seeds)
    kept = _kept(path, probe)
    found = []
    for name in [*known, STATIC, ORACLE]:
        if name in kept:
            found.append(_curve(kept[name]))
            continue
        print(f"  {name}", file=sys.stderr, flush=True)
        if name == STATIC:
            found.append(best_static(world, seeds))
        elif name == ORACLE:
            found.append(contest.oracle(world, seeds))
        else:
            found.append(curve(world, known[name], seeds))
        if name != OURS:
            kept[name] = asdict(found[-1])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"probe": probe, "curves": kept}) + "\n")
    return found


def _probe(world: World, seeds: Sequence[int]) -> str:
    """What one run of a rule that starts and drains replicas comes to, with the rules' source, world and seeds."""
    run = played(world, kubernetes.Keda(8.0), seeds[0])
    ends = ((one.end.value, one.ended_s, one.ttft_s, one.replica) for one in run.outcomes)
    said = (tuple(ends), run.course, run.accelerator_hours, world.setting, list(seeds), world.knee_rps, _TEXT)
    return hashlib.sha256(repr(said).encode()).hexdigest()


def _kept(path: Path, probe: str) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return dict(found["curves"]) if found.get("probe") == probe else {}


def _curve(found: dict[str, Any]) -> Curve:
    points = tuple(Point(**point) for point in found["points"])
    return Curve(policy=found["policy"], usual=found["usual"], points=points, causal=found["causal"])
