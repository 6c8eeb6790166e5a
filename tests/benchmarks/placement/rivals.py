"""Other ways to choose nodes, as yardsticks: they see the same nodes and the same pods, one pod after the other.

kube-scheduler's default profile, from https://kubernetes.io/docs/reference/scheduling/config/ and
https://kubernetes.io/docs/concepts/scheduling-eviction/scheduler-perf-tuning/: NodeResourcesFit scores by
LeastAllocated over cpu and memory (weight 1 each), NodeResourcesBalancedAllocation by how evenly cpu and memory are
used (weight 1); of a cluster of n nodes it looks for (50 - n / 125) % feasible ones, at least 5 %, beginning where it
stopped the last time, and draws among the best. Its other plugins tell equal pods on equal nodes nothing apart. With
`most_allocated` it is the strategy that its documentation offers for bin packing, on the accelerators.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

ACCELERATORS = 8
CPU_EACH, MEMORY_EACH = 10, 100
CPU, MEMORY = 96, 1024


@dataclass(slots=True)
class Node:
    """What is left of a node: accelerators, cores, GiB."""

    name: str
    block: str
    accelerators: int = ACCELERATORS
    cpu: int = CPU
    memory: int = MEMORY

    def holds(self, size: int) -> bool:
        return self.accelerators >= size and self.cpu >= size * CPU_EACH and self.memory >= size * MEMORY_EACH

    def change(self, size: int) -> None:
        """Takes so many accelerators and their share of the host; gives them back where negative."""
        self.accelerators -= size
        self.cpu -= size * CPU_EACH
        self.memory -= size * MEMORY_EACH


Choose = Callable[[Sequence[Node], int], Node | None]


def first_fit(nodes: Sequence[Node], size: int) -> Node | None:
    """The first node with room, in the order of their names."""
    return next((node for node in nodes if node.holds(size)), None)


class KubeScheduler:
    """The default profile's filter, sample, score and draw."""

    def __init__(self, seed: int, *, most_allocated: bool = False) -> None:
        self._random, self._next = random.Random(seed), 0
        self._score = _most_allocated if most_allocated else _least_allocated

    def __call__(self, nodes: Sequence[Node], size: int) -> Node | None:
        enough = max(100, len(nodes) * max(5, 50 - len(nodes) // 125) // 100)
        feasible: list[Node] = []
        for looked in range(len(nodes)):
            node = nodes[(self._next + looked) % len(nodes)]
            if node.holds(size):
                feasible.append(node)
                if len(feasible) == enough:
                    break
        self._next = (self._next + looked + 1) % len(nodes)
        if not feasible:
            return None
        scores = [self._score(node, size) for node in feasible]
        best = max(scores)
        return self._random.choice([node for node, score in zip(feasible, scores, strict=True) if score == best])


def _least_allocated(node: Node, size: int) -> int:
    cpu = (node.cpu - size * CPU_EACH) / CPU
    memory = (node.memory - size * MEMORY_EACH) / MEMORY
    balanced = 1 - abs(cpu - memory) / 2  # the standard deviation of two shares
    return int(100 * (cpu + memory) / 2) + int(100 * balanced)


def _most_allocated(node: Node, size: int) -> int:
    return int(100 * (ACCELERATORS - node.accelerators + size) / ACCELERATORS)
