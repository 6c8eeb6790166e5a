"""The fleet's tick: between reconciles every model's number of replicas is decided again, from newer samples.

A reconcile reads a dozen lists; a decision about the number needs none of them. So it is made here every few seconds
for all models, and only where the number or what is told of it changes is a reconcile asked for. No I/O.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from modelfleet.controller.triggers import Key, Triggers
from modelfleet.core.active import Scaling
from modelfleet.core.scaling.arbitration import Grant, decide_grants, decide_waits
from modelfleet.core.scaling.memory import Kept
from modelfleet.core.scaling.samples import Samples

_log = logging.getLogger(__name__)

TICK_S = 5.0
_AT_A_TIME = 50
"""So many models are decided before others get the event loop."""


class Autoscaler:
    """Holds the last decision of each key, and decides it again."""

    def __init__(self, samples: Callable[[Key], Samples], triggers: Triggers, now: Callable[[], datetime]) -> None:
        self._samples, self._triggers, self._now = samples, triggers, now
        self._scalings: dict[Key, Scaling] = {}
        self._grants: tuple[Grant, ...] = ()
        self._waits: dict[str, str] = {}

    def view(self, key: Key) -> Kept | None:
        """What is remembered of a key; None: nothing yet."""
        scaling = self._scalings.get(key)
        return scaling.kept if scaling else None

    def grants(self, key: Key) -> tuple[Grant, ...]:
        """Replicas that a key leaves to other models, or gets from them."""
        return tuple(each for each in self._grants if each.vain_s is None and str(key) in (each.giver, each.taker))

    def wait(self, key: Key) -> str:
        """What a key that lacks replicas waits for before other models leave it some, as a sentence; empty: nothing."""
        return self._waits.get(str(key), "")

    def hold(self, key: Key, scaling: Scaling | None) -> None:
        """What a reconcile decided; None: nothing is decided from samples, so nothing is remembered."""
        if scaling is None:
            self._scalings.pop(key, None)
        else:
            self._scalings[key] = scaling

    def forget(self, key: Key) -> None:
        """The ModelDeployment is gone."""
        self._scalings.pop(key, None)

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys whose number samples decide."""
        return tuple(self._scalings)

    def decide(self, key: Key) -> bool:
        """Decides a key again; whether something to do or to tell came of it."""
        before = self._scalings.get(key)
        if before is None:
            return False
        case = replace(before.case, samples=self._samples(key), now=self._now(), grants=self.grants(key))
        after = before.again(case)
        self._scalings[key] = after
        return (after.kept.replicas, after.kept.shown) != (before.kept.replicas, before.kept.shown)

    async def tick(self) -> None:
        """Decides all keys once, and has those reconciled where something came of it."""
        for index, key in enumerate(self.keys):
            if index and not index % _AT_A_TIME:
                await asyncio.sleep(0)
            try:
                changed = self.decide(key)
            except Exception:
                # The reconcile meets the same and tells it in the object's conditions; other models go on.
                _log.exception("the number of replicas could not be decided", extra={"object": str(key)})
                self.forget(key)
                changed = True
            if changed:
                self._triggers.add(key)
        for key in self.arbitrate(asyncio.get_running_loop().time()):
            self._triggers.add(key)

    def arbitrate(self, now_s: float) -> tuple[Key, ...]:
        """Decides who leaves accelerators to whom, and who waits; the keys for which that changed."""
        before, waited = self._grants, self._waits
        bids = [each.bid for each in self._scalings.values()]
        self._grants = decide_grants(bids, before, now_s)
        self._waits = decide_waits(bids, self._grants)
        changed = {name for each in set(before) ^ set(self._grants) for name in (each.giver, each.taker)}
        changed |= {name for name, _ in set(waited.items()) ^ set(self._waits.items())}
        return tuple(key for key in self._scalings if str(key) in changed)

    async def run(self) -> None:
        """Ticks without end."""
        while True:
            await asyncio.sleep(TICK_S)
            await self.tick()
