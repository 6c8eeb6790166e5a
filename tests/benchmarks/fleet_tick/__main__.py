"""The numbers of replicas of 1,000 models are decided once: what a whole tick of the fleet costs of one core.

Each model has 10 serving workers with a full window of readings, and a policy that remembers four hours of load and a
week of its seasons. Every reading is new at each tick, so nothing is skipped, and the ticks are of five minutes, in
which each model looks for its season. Prints what it measured, writes it as JSON, and ends with 1 where a tick takes
more than a second of CPU time.
"""

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from builders import START
from modelfleet.controller.autoscaler import Autoscaler
from modelfleet.controller.triggers import Key
from modelfleet.core.active import Scaling
from modelfleet.core.scaling.forecast import Forecaster
from modelfleet.core.scaling.history import BINS, SLOTS
from modelfleet.core.scaling.ledger import Ledger
from modelfleet.core.scaling.policy import Memory
from modelfleet.core.scaling.reading import Histogram, ObjectiveCounts, Outcomes, Reading
from modelfleet.core.scaling.samples import PodSamples, Samples
from scaling_worlds import sampled

MODELS, EACH, TICKS, TICK_S = 1000, 10, 62, 5.0
LIMIT_S = 1.0
EDGES = (100.0, 125.0, 400.0, 500.0)


class Fleet:
    """Samples of every model at the present moment, with a full window behind it."""

    def __init__(self, promise: str) -> None:
        self._promise = promise
        self.at_s = 10_000.0
        self.ready: dict[Key, Samples] = {}
        self._read: dict[str, tuple[Reading, ...]] = {}

    def samples(self, key: Key) -> Samples:
        """What was read of one model."""
        pods = {uid: self._pod(uid, index) for index, uid in enumerate(uids(key))}
        return Samples(at_s=self.at_s, pods=pods)

    def _pod(self, uid: str, index: int) -> PodSamples:
        moments = (300.0, 240.0, 180.0, 120.0, 60.0, 45.0, 30.0, 15.0, 5.0)
        before = self._read.get(uid) or tuple(self._reading(uid, index, self.at_s - age_s) for age_s in moments)
        readings = (*before[-9:], self._reading(uid, index, self.at_s))
        self._read[uid] = readings
        return PodSamples(uid=uid, name=uid, revision="1a2b3c4d", readings=readings)

    def _reading(self, uid: str, index: int, at_s: float) -> Reading:
        count = int(at_s * (5 + index % 3))
        tokens = Histogram(EDGES, (count, 0, 0, 0, 0), count * 100.0)
        counts = ObjectiveCounts(
            arrivals=count, ended=Outcomes(met=count - count // 200, late_ttft=count // 200), input_tokens=tokens
        )
        return Reading(pod_uid=uid, at_s=at_s, promise=self._promise, promises={self._promise: {"interactive": counts}})


def uids(key: Key) -> list[str]:
    """The workers of a model."""
    return [f"{key.name}-{index}" for index in range(EACH)]


def models(fleet: Fleet, like: Scaling) -> Iterator[tuple[Key, Scaling]]:
    """Each model, with a long memory."""
    for number in range(MODELS):
        key = Key("team", f"m{number}")
        serving = tuple(uids(key))
        seats = replace(like.case.seats, serving=serving, standing=EACH, present=frozenset(serving))
        wave = tuple(50.0 + 20.0 * ((at + number) % 96) / 96 for at in range(SLOTS))
        memory = Memory()
        history = replace(memory.history, bins=wave[:BINS], slots=wave)
        memory = replace(memory, history=history, forecaster=Forecaster.of(str(key)))
        kept = replace(like.kept, ledger=Ledger(base=memory, memory=memory), cursors={}, looked_s=None, offset_s=None)
        yield key, replace(like, case=replace(like.case, key=str(key), seats=seats), kept=kept)


class Woken:
    """Counts what would be reconciled."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, key: Key, *, behind: bool = False) -> None:
        """A key is asked for."""
        self.count += 1


async def ticks(numbers: Autoscaler, fleet: Fleet) -> list[float]:
    """The CPU seconds of each tick; what the samples themselves cost to make here is taken off."""
    found = []
    for _ in range(TICKS):
        fleet.at_s += TICK_S
        ready = {key: fleet.samples(key) for key in numbers.keys}
        made_s = time.process_time()
        fleet.ready = ready
        await numbers.tick()
        found.append(time.process_time() - made_s)
    return found


def main(path: str) -> int:
    """Runs the ticks."""
    like = sampled(maxReplicas=40).scaling
    if like is None:
        raise AssertionError("a sampled fleet has a decision")
    woken, fleet = Woken(), Fleet(like.case.promise)
    numbers = Autoscaler(lambda key: fleet.ready[key], woken, lambda: START)
    for key, scaling in models(fleet, like):
        numbers.hold(key, scaling)
    took = asyncio.run(ticks(numbers, fleet))[2:]
    result = {
        "models": MODELS,
        "workers": MODELS * EACH,
        "ticks": len(took),
        "cpuSecondsATickMedian": round(statistics.median(took), 3),
        "cpuSecondsATickMost": round(max(took), 3),
        "reconcilesAskedFor": woken.count,
    }
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(result, indent=1))
    print(json.dumps(result, indent=1))
    return 0 if result["cpuSecondsATickMost"] < LIMIT_S else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
