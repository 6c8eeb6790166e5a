"""`make soak`: fuzzes until so many objects were tried; what fails is printed with its seed and as small as it gets.

A seed is a world and never changes, so a run is resumed with --seed, and one failure is run again with
`--seed N --worlds 1`. Each seed gives a world that runs through the whole loop, and loose ones that are decided on.
"""

import argparse
import contextlib
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

if __name__ == "__main__":  # as a program; pytest has both folders already
    sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from fuzz_run import Clock, decide, run
from fuzz_shrink import Fails, shrink
from fuzz_worlds import Case, case, loose

LOOSE_SHARE = 2
"""Loose worlds for each world that runs; they are cheap."""

_SHRINK_S = 20.0
_TELL_S = 30.0


@dataclass
class Tally:
    """What was tried so far. `worst_s`: the most CPU time that one world took, and its seed."""

    objects: int = 0
    worlds: int = 0
    decisions: int = 0
    failures: list[str] = field(default_factory=list)
    worst_s: float = 0.0
    worst_seed: int = 0
    begun_s: float = field(default_factory=time.monotonic)

    def line(self, seed: int) -> str:
        """The state in a line; `seed` is where a later run would go on."""
        seconds = time.monotonic() - self.begun_s
        return (
            f"seed {seed}: {self.objects} objects in {self.worlds} worlds, {self.decisions} decisions,"
            f" {len(self.failures)} failures, {self.objects / seconds:.0f} objects/s,"
            f" worst {self.worst_s * 1000:.0f} ms (seed {self.worst_seed})"
        )


def fuzz(seed: int, tally: Tally, loop: Clock) -> None:
    """All worlds of one seed; a failure is put into the tally with the smallest world that shows it."""

    def settles(world: Case) -> None:
        tally.decisions += run(world, loop).decisions

    def is_decided(world: Case) -> None:
        tally.decisions += 1
        decide(world)

    _try(case(seed), settles, "run", tally)
    for step in range(LOOSE_SHARE):
        _try(loose(seed * LOOSE_SHARE + step), is_decided, "decide", tally)


def _try(world: Case, fails: Fails, how: str, tally: Tally) -> None:
    tally.worlds += 1
    tally.objects += len(world.objects)
    begun_s = time.process_time()
    try:
        fails(world)
        seconds = time.process_time() - begun_s
        if seconds > tally.worst_s:
            tally.worst_s, tally.worst_seed = seconds, world.seed
    except Exception as error:
        small = shrink(world, fails, _SHRINK_S)
        said = f"{type(error).__name__}: {error}"
        tally.failures.append(f"seed {world.seed} ({how}): {said}\nthe smallest world that shows it:\n{small.text()}")


def soak(first: int, *, objects: int, worlds: int | None = None, tell: bool = False) -> Tally:
    """Tries seeds from `first` on until `objects` were made, or so many seeds were tried."""
    tally, loop, told_s = Tally(), Clock(), time.monotonic()
    seed = first
    with contextlib.closing(loop):
        while tally.objects < objects and (worlds is None or seed < first + worlds):
            failed = len(tally.failures)
            fuzz(seed, tally, loop)
            seed += 1
            for failure in tally.failures[failed:]:
                print(failure, flush=True)
            if tell and time.monotonic() - told_s > _TELL_S:
                told_s = time.monotonic()
                print(tally.line(seed), flush=True)
    if tell:
        print(tally.line(seed), flush=True)
    return tally


def main(argv: Sequence[str] | None = None) -> int:
    """0: nothing failed."""
    parser = argparse.ArgumentParser("soak", description="Fuzzes the operator's decisions.")
    parser.add_argument("--seed", type=int, default=0, help="the first seed; where an earlier run ended")
    parser.add_argument("--objects", type=int, default=1_000_000, help="stop after so many objects")
    parser.add_argument("--worlds", type=int, help="stop after so many seeds")
    arguments = parser.parse_args(argv)
    tally = soak(arguments.seed, objects=arguments.objects, worlds=arguments.worlds, tell=True)
    print(f"soak: {'ok' if not tally.failures else f'{len(tally.failures)} failures'}")
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
