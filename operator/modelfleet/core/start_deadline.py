"""How long a worker may take from its start to the first token. Pure.

Reading the checkpoint is what grows with the model; everything else (imports, compiling, graphs, the first request) is
bounded by a constant:

    deadline = max(floor, ENGINE_S + SLACK * checkpoint bytes / bandwidth at which a node reads it)

The floor is the operator's setting. Each node is taken to read all of it, as vLLM's ranks do that open every file. A
deadline is pinned with its plan: another operator, or a class that states another bandwidth, changes none that stands.
"""

ENGINE_S = 900.0
"""All but reading: vLLM's own limit for an engine to be ready, 600 s, and half as much again."""

SLACK = 2.0
"""Storage that is shared reads at half its stated rate when several nodes start at once."""

BANDWIDTH_BYTES_S = 200e6
"""What is taken where the class states no storageBandwidth: a network disk at the low end of what clouds sell."""

FETCH_S, FETCH_TIMES = 86_400.0, 10.0
"""A fetch over a network has a day, or ten times the start deadline where that is longer."""

MOST_S = 1_000_000.0
"""No start has longer, whatever a report says of a checkpoint's size."""

_MOST_BYTES = 1e15  # a report may say any number, also one that no float holds


def start_deadline_s(floor_s: float, checkpoint_bytes: float | None, bandwidth_bytes_s: float | None) -> float:
    """The deadline in whole seconds; the floor where the size is not known."""
    if not checkpoint_bytes:
        return floor_s
    reading_s = min(checkpoint_bytes, _MOST_BYTES) / (bandwidth_bytes_s or BANDWIDTH_BYTES_S)
    return max(floor_s, float(round(min(MOST_S, ENGINE_S + SLACK * reading_s))))


def fetch_limit_s(start_deadline_s: float) -> float:
    """How long one run of the container that fetches weights may take at most. It ends itself when nothing comes
    (docs/weights.md); this is for one that cannot end, and for one that would take weeks. It grows with the bytes as
    the start deadline does: 405B in bf16 from storage of 200 MB/s has 25 hours, which is 9 MB/s."""
    return max(FETCH_S, FETCH_TIMES * start_deadline_s)
