"""For how long no request came to any replica. Pure.

What is not known is never idle. Counts only grow, so equal counts before and after a gap say that nothing came in it,
also where nobody looked meanwhile.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from modelfleet.core.groups import Replica
from modelfleet.core.scaling.samples import Samples
from modelfleet.core.scaling.zero_kept import Kept


@dataclass(frozen=True, kw_only=True)
class Counts:
    """What one replica counted by now. `age_s`: how old that is."""

    arrivals: int
    in_flight: int
    age_s: float = 0.0


def counts_of(samples: Samples | None, fleet: Iterable[Replica]) -> dict[str, Counts]:
    """What is known of replicas now, by uid; one whose worker cannot be read, or counts no requests, is not in it."""
    found: dict[str, Counts] = {}
    for replica in fleet:
        pod = samples.pods.get(replica.uid) if samples is not None else None
        if samples is None or pod is None or not pod.fresh(samples.at_s):
            continue
        last = pod.readings[-1]
        if last.promise is None or last.in_flight is None:
            continue
        arrivals = sum(each.arrivals for by_name in last.promises.values() for each in by_name.values())
        age_s = max(0.0, samples.at_s - last.at_s)
        found[replica.uid] = Counts(arrivals=arrivals, in_flight=last.in_flight, age_s=age_s)
    return found


def idle_s(kept: Kept, standing: Iterable[Replica], counts: Mapping[str, Counts], now: datetime) -> float | None:
    """Seconds without a request; 0 where one came since that was last kept, None where it is not known.

    | a replica with a node starts, or answers a request | 0 |
    | a ready one's counts are not known | None |
    | the clock does not run yet, or a count moved | 0 |
    | else | from the clock's begin to the oldest of the counts |
    """
    fleet = tuple(standing)
    starts = any(replica.placed and not replica.ready and replica.failure is None for replica in fleet)
    if starts or any(each.in_flight for each in counts.values()):
        return 0.0
    if any(replica.ready and replica.uid not in counts for replica in fleet):
        return None
    if kept.idle_at is None or any(each.arrivals != kept.arrivals.get(uid) for uid, each in counts.items()):
        return 0.0
    known_at = now - timedelta(seconds=max((each.age_s for each in counts.values()), default=0.0))
    return max(1e-3, (known_at - kept.idle_at).total_seconds())


def begun_anew(kept: Kept, counts: Mapping[str, Counts], now: datetime, grain_s: float) -> Kept:
    """The clock, set to now; left as it is while it is younger than `grain_s`, which can only make it late."""
    if kept.idle_at is not None and timedelta() <= now - kept.idle_at < timedelta(seconds=grain_s):
        return kept
    return kept.with_clock(now.replace(microsecond=0), {uid: each.arrivals for uid, each in counts.items()})
