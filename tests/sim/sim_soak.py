"""`make soak`: plays seeded runs of a fleet in trouble; what does not hold is printed with its seed and its story.

A seed is a run and never changes, so a soak is resumed with --seed, and one run is played again with
`--seed N --runs 1`.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":  # as a program; pytest has both folders already
    sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from sim_run import Broken, Run

_TELL_S = 30.0


def main(argv: Sequence[str] | None = None) -> int:
    """Plays the runs; 1 if something did not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="the first run (default 0)")
    parser.add_argument("--runs", type=int, default=10_000, help="how many (default 10000)")
    arguments = parser.parse_args(argv)
    decisions, broken, begun_s = 0, 0, time.monotonic()
    told_s = begun_s
    for seed in range(arguments.seed, arguments.seed + arguments.runs):
        try:
            decisions += Run(seed).play()
        except Broken as found:
            broken += 1
            print(f"{found}\n", flush=True)
        if time.monotonic() - told_s > _TELL_S:
            told_s = time.monotonic()
            print(f"seed {seed}: {decisions} decisions, {broken} broken", flush=True)
    took_s = time.monotonic() - begun_s
    print(
        f"{arguments.runs} runs from seed {arguments.seed}: {decisions} decisions in {took_s:.0f} s, {broken} broken;"
        f" the next seed is {arguments.seed + arguments.runs}"
    )
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
