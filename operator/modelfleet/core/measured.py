"""When measured numbers go into a status: rounded, once a minute at most, and only if they are others then. Pure.

A status that moved with every reading would be a write a few seconds for each model, and each write wakes whoever
watches. What is decided never waits for this: it is made from samples, not from the status.
"""

import json
from typing import Any

from modelfleet.core import raw
from modelfleet.core.snapshot import World

HOLD_S = 60.0
"""What was written stays for so long, unless what follows from it is another."""

_BLOCKS = ("goodput", "coldStart")


def measured_part(deployment: Any) -> str:
    """The measured part of a status as a text to compare."""
    blocks = {name: raw.mapping(deployment, "status", name) for name in _BLOCKS}
    observed = [raw.mapping(pool, "observed") for pool in raw.items(deployment, "status", "plan", "pools")]
    return json.dumps([blocks, observed], sort_keys=True, default=str)


def holds(world: World) -> bool:
    """What the status tells of measured numbers was written a moment ago, and stays."""
    return world.told_s < HOLD_S


def hold_left_s(world: World) -> float | None:
    """Seconds until it may be written again; None: it may be now."""
    return HOLD_S - world.told_s if holds(world) else None
