"""Which replicas leave first, and how one leaves when we choose. Pure.

| what is observed of one that is to leave | what is done |
| --- | --- |
| it is not Ready, so it gets no requests | deleted |
| it is in the Service | taken out: the serving label goes off |
| it is out for less than the propagation time | waited for: arrivals are still served |
| else | deleted; what is in flight then is finished in the worker's own drain on SIGTERM (ADR 3) |

When Kubernetes chooses (an eviction, a node that shuts down), nothing of this happens: the pod terminates, its endpoint
leaves by itself and the worker drains inside its grace period.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from modelfleet.core.groups import Replica


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a replica does and what its end would free; None where it is not known.

    `in_flight`: requests that it answers now. `warm_tokens`: tokens of shared prefixes in its cache. `whole_nodes`:
    nodes that nobody else uses, which would be free for a large group.
    """

    in_flight: int | None = None
    warm_tokens: int | None = None
    whole_nodes: int | None = None


_UNKNOWN = Work()


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What drains go by. `out_s`: how long each has been out of the Service, and `work`: what it does, by uid."""

    propagation_s: float
    out_s: Mapping[str, float] = field(default_factory=dict)
    work: Mapping[str, Work] = field(default_factory=dict)


@dataclass(frozen=True)
class Leaving:
    """Of those that are to leave: what is deleted now, what is taken out of the Service, when to look again."""

    delete: tuple[Replica, ...]
    off: tuple[Replica, ...]
    wake_after_s: float | None


def first_to_leave(
    replicas: Iterable[Replica], revision: str, work: Mapping[str, Work] | None = None, pools: Sequence[str] = ()
) -> list[Replica]:
    """The replicas, the best victim first: what already drains, so that two reconciles never choose different ones;
    ended; broken; not Ready; of another revision than `revision`; of the latest class, in the order of its `pools`; of
    those that start, those without a node, then the youngest, which is furthest from serving; least work in flight;
    least warm prefix; most whole nodes freed; the highest slot. What is not known of a replica makes it neither better
    nor worse than a busy one."""
    known = work or {}

    def rank(replica: Replica) -> tuple[bool, bool, bool, bool, bool, int, bool, float, float, float, int, int, str]:
        does = known.get(replica.uid, _UNKNOWN)
        return (
            replica.serving or not replica.ready,
            not replica.finished,
            not replica.failure,
            replica.ready,
            replica.revision == revision,
            -pools.index(replica.pool) if replica.pool in pools else 0,
            replica.ready or replica.placed,
            0.0 if replica.ready or replica.created_at is None else -replica.created_at.timestamp(),
            float("inf") if does.in_flight is None else does.in_flight,
            float("inf") if does.warm_tokens is None else does.warm_tokens,
            -(does.whole_nodes or 0),
            1 if replica.slot is None else -replica.slot,
            replica.name,
        )

    return sorted(replicas, key=rank)


def leave(victims: Iterable[Replica], terms: Terms) -> Leaving:
    """The next step of each that is to leave."""
    delete, off, waits = [], [], []
    for replica in victims:
        wait_s = _wait_s(replica, terms)
        if wait_s is None:
            delete.append(replica)
        else:
            waits.append(wait_s)
            if replica.serving:
                off.append(replica)
    return Leaving(tuple(delete), tuple(off), min(waits, default=None))


def _wait_s(replica: Replica, terms: Terms) -> float | None:
    """How long it may stay; None: it is deleted now."""
    if not replica.ready:
        return None
    if replica.serving:
        return terms.propagation_s
    out_s = terms.out_s.get(replica.uid, 0.0)
    return terms.propagation_s - out_s if out_s < terms.propagation_s else None
