"""Placement at 8,000 accelerators: how long it takes, and how many large groups fit after a churn of mixed ones.

Everything is seeded, but for the times. These are told twice: as the process's own CPU time, which is what a quiet
machine would show, and by the clock. Prints what it measured, and writes it as JSON.
"""

import json
import math
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from benchmarks.placement.rivals import (
    ACCELERATORS,
    CPU,
    CPU_EACH,
    MEMORY,
    MEMORY_EACH,
    Choose,
    KubeScheduler,
    Node,
    first_fit,
)
from modelfleet.core.placement.ledger import Ledger
from modelfleet.core.placement.place import place
from modelfleet.core.placement.project import NodeEntry, PodEntry
from modelfleet.core.placement.want import GroupWant, Placement

NODES, RACK, BLOCK = 1000, 8, 40
GPU = "nvidia.com/gpu"
TOPOLOGY = ("topology.example.com/rack", "topology.example.com/block")
SIZES = (1, 2, 4, 8, 16)
GROUPS = 1000
SEEDS = (1, 2, 3)
OFFERED = 0.85
CHURN = 4000
CHANCES = {1: 40, 2: 24, 4: 16, 8: 14, 16: 6}
"""How often a group of each size arrives, of a hundred: many small ones, as model fleets are."""


class Policy(Protocol):
    """Where groups go. A group of 16 is two pods of 8."""

    def add(self, name: str, size: int) -> bool:
        """Places a group whole; False where it does not fit."""

    def remove(self, name: str) -> None:
        """The group is gone."""

    def blocks(self, name: str) -> int:
        """Over how many blocks the group stands."""


def main(output: Path) -> None:
    results: dict[str, Any] = {"times": times(), "churn": [churn(seed) for seed in SEEDS]}
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(results, indent=1) + "\n")
    for line in table(results):
        print(line)


class Ours:
    """The operator's own path: a view of the books, a placement on it, a pod that is seen."""

    def __init__(self) -> None:
        self._books = Ledger()
        self._pods: dict[str, list[str]] = {}
        self.took_s: list[float] = []
        self.by_clock_s: list[float] = []
        for number in range(NODES):
            labels = {"gpu": "h100", TOPOLOGY[0]: f"r{number // RACK:03}", TOPOLOGY[1]: f"b{number // BLOCK:02}"}
            offers = {GPU: ACCELERATORS, "cpu": CPU * 1000, "memory": MEMORY * 2**30, "pods": 110}
            self._books.set_node(f"n{number:04}", NodeEntry(labels, offers, True, False, ()))

    def add(self, name: str, size: int) -> bool:
        want = _want(name, size)
        began_s, cpu_s = time.perf_counter(), time.thread_time()
        (answer,) = place(self._books.view(name, {}), [want])
        self.took_s.append(time.thread_time() - cpu_s)
        self.by_clock_s.append(time.perf_counter() - began_s)
        if not isinstance(answer, Placement):
            return False
        self._pods[name] = [f"{name}-{rank}" for rank in range(want.members)]
        for pod, node in zip(self._pods[name], answer.nodes, strict=True):
            self._books.set_pod(pod, PodEntry(node, want.requests))
        return True

    def remove(self, name: str) -> None:
        for pod in self._pods.pop(name):
            self._books.set_pod(pod, None)

    def blocks(self, name: str) -> int:
        nodes = (self._books.pods[pod].node for pod in self._pods[name])
        return len({self._books.nodes[node].labels[TOPOLOGY[1]] for node in nodes})


class OnePodAfterTheOther:
    """A scheduler of pods. The pods of a group that does not fit whole are taken back: gangs are given to it."""

    def __init__(self, choose: Choose) -> None:
        self._choose = choose
        self._nodes = [Node(f"n{number:04}", f"b{number // BLOCK:02}") for number in range(NODES)]
        self._groups: dict[str, list[tuple[Node, int]]] = {}

    def add(self, name: str, size: int) -> bool:
        taken: list[tuple[Node, int]] = []
        for part in _parts(size):
            node = self._choose(self._nodes, part)
            if node is None:
                _give_back(taken)
                return False
            node.change(part)
            taken.append((node, part))
        self._groups[name] = taken
        return True

    def remove(self, name: str) -> None:
        _give_back(self._groups.pop(name))

    def blocks(self, name: str) -> int:
        return len({node.block for node, _ in self._groups[name]})


def _give_back(taken: Sequence[tuple[Node, int]]) -> None:
    for node, part in taken:
        node.change(-part)


def times() -> dict[str, Any]:
    """A thousand groups of five sizes, one after the other, into an empty cluster, and the same at 95 % and above."""
    sizes = [SIZES[index % len(SIZES)] for index in range(GROUPS)]
    random.Random(0).shuffle(sizes)
    ours = Ours()
    placed = sum(ours.add(f"group-{number}", size) for number, size in enumerate(sizes))
    filling = _spread("filling", ours.took_s) | _spread("filling_by_clock", ours.by_clock_s)
    while ours.add(f"filler-{len(ours.took_s)}", 4):
        pass
    ours.took_s, ours.by_clock_s = [], []
    refused = [ours.add(f"late-{number}", size) for number, size in enumerate(SIZES * 40)]
    return {
        "placed": placed,
        "groups": GROUPS,
        "accelerators": sum(sizes),
        **filling,
        **_spread("full", ours.took_s),
        **_spread("full_by_clock", ours.by_clock_s),
        "full_refused": refused.count(False),
    }


def churn(seed: int) -> dict[str, Any]:
    """The same arrivals and departures for each policy, then as many groups of 8 as are free in sum."""
    policies: dict[str, Callable[[], Policy]] = {
        "modelfleet": Ours,
        "first fit": lambda: OnePodAfterTheOther(first_fit),
        "kube-scheduler, default": lambda: OnePodAfterTheOther(KubeScheduler(seed)),
        "kube-scheduler, MostAllocated": lambda: OnePodAfterTheOther(KubeScheduler(seed, most_allocated=True)),
    }
    return {name: _after_churn(make(), seed) for name, make in policies.items()}


def _after_churn(policy: Policy, seed: int) -> dict[str, float]:
    there: dict[str, int] = {}
    arrived, refused = Counter[int](), Counter[int]()
    for name, size in _events(seed):
        if size:
            arrived[size] += 1
            if policy.add(name, size):
                there[name] = size
            else:
                refused[size] += 1
        elif name in there:
            policy.remove(name)
            del there[name]
    large = [name for name, size in there.items() if size > ACCELERATORS]
    in_one_block = sum(policy.blocks(name) == 1 for name in large) / max(1, len(large))
    free = NODES * ACCELERATORS - sum(there.values())
    asked = free // ACCELERATORS
    fit = sum(policy.add(f"probe-{number}", ACCELERATORS) for number in range(asked))
    return {
        "in_use": round(1 - free / (NODES * ACCELERATORS), 4),
        "asked": asked,
        "placed": fit,
        "share": round(fit / asked, 4),
        "large_in_one_block": round(in_one_block, 4),
        **{f"refused_{size}": round(refused[size] / arrived[size], 4) for size in SIZES},
    }


def _events(seed: int) -> Iterator[tuple[str, int]]:
    """Arrivals with their size and departures with 0: first up to OFFERED of the cluster, then one for one in size."""
    draw = random.Random(seed)
    sizes, weights = list(CHANCES), list(CHANCES.values())
    offered: dict[str, int] = {}
    for number in range(CHURN):
        (size,) = draw.choices(sizes, weights)
        while sum(offered.values()) + size > OFFERED * NODES * ACCELERATORS:
            leaver = draw.choice(sorted(offered))
            del offered[leaver]
            yield leaver, 0
        name = f"g{number:05}"
        offered[name] = size
        yield name, size


def _want(name: str, size: int) -> GroupWant:
    each = min(size, ACCELERATORS)
    requests = {GPU: each, "cpu": each * CPU_EACH * 1000, "memory": each * MEMORY_EACH * 2**30, "pods": 1}
    return GroupWant(
        key=name,
        deployment=name,
        members=len(_parts(size)),
        resource=GPU,
        accelerators=each,
        requests=requests,
        class_name="h100-sxm",
        node_selector={"gpu": "h100"},
        tensor=each,
        topology=TOPOLOGY,
    )


def _parts(size: int) -> list[int]:
    return [min(size, ACCELERATORS)] * math.ceil(size / ACCELERATORS)


def _spread(name: str, took_s: Sequence[float]) -> dict[str, float]:
    ordered = sorted(took_s)
    quantiles = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {f"{name}_{key}_ms": round(1000 * _quantile(ordered, share), 2) for key, share in quantiles.items()}


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def table(results: dict[str, Any]) -> list[str]:
    """The results as a reader wants them."""
    took, runs = results["times"], results["churn"]
    lines = [
        f"{NODES} nodes of {ACCELERATORS}; {took['placed']} of {took['groups']} groups of 1 to 16 placed"
        f" ({took['accelerators']} accelerators), one at a time:"
        f" {_told(took, 'filling')}",
        f"on the full cluster, {took['full_refused']} of {40 * len(SIZES)} refused with the shortfall:"
        f" {_told(took, 'full')}",
        f"after {CHURN} arrivals at {OFFERED:.0%} offered, groups of 8 that fit into what is free"
        f" (seeds {', '.join(map(str, SEEDS))}):",
    ]
    for name in runs[0]:
        shares = ", ".join(f"{run[name]['share']:.1%}" for run in runs)
        held = ", ".join(f"{run[name]['in_use']:.1%}" for run in runs)
        refused = ", ".join(
            f"{size}: {sum(run[name][f'refused_{size}'] for run in runs) / len(runs):.1%}" for size in SIZES
        )
        together = ", ".join(f"{run[name]['large_in_one_block']:.0%}" for run in runs)
        lines.append(
            f"  {name}: {shares} (in use {held}; groups of 16 in one block {together}; refused on the way {refused})"
        )
    return lines


def _told(took: dict[str, Any], name: str) -> str:
    cpu = ", ".join(f"{key} {took[f'{name}_{key}_ms']} ms" for key in ("p50", "p99", "max"))
    return f"CPU {cpu}; by the clock p50 {took[f'{name}_by_clock_p50_ms']} ms, p99 {took[f'{name}_by_clock_p99_ms']} ms"


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/bench/placement.json"))
