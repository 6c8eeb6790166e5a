"""Everything is looked at again now and then: what a watch missed costs time, never correctness. I/O: lists only.

At a start all keys are asked for at once. After that each has its own moment of every interval, the same for the same
key, so that a round costs the API server the same all the time. Either way they go behind what has changed.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from operator import itemgetter

from modelfleet.controller.cluster import ApiError, Cluster
from modelfleet.controller.queue import WorkQueue
from modelfleet.controller.resources import DEPLOYMENTS
from modelfleet.controller.triggers import Key
from modelfleet.core.scaling.phase import share

_log = logging.getLogger(__name__)

_PUT_OFF_S = 5.0
"""A list that failed is asked for again after so long, or after what the API server says, if that is more."""


class Resync:
    """Asks the queue for every ModelDeployment of some namespaces once each interval."""

    def __init__(
        self, cluster: Cluster, queue: WorkQueue[Key], interval_s: float, namespaces: Sequence[str] = ()
    ) -> None:
        """`namespaces` are those that this installation serves; empty: all."""
        self._cluster, self._queue, self._interval_s, self._namespaces = cluster, queue, interval_s, namespaces
        self.has_listed = False
        """All ModelDeployments were listed and asked for once."""

    async def run(self) -> None:
        """Until cancelled."""
        for key in await self._keys():
            self._queue.add(key, behind=True)
        self.has_listed = True
        await asyncio.sleep(self._interval_s)
        while True:
            await self._round(await self._keys())

    async def _round(self, keys: Iterable[Key]) -> None:
        now_s = asyncio.get_running_loop().time
        began_s = now_s()
        for part, key in sorted(((share(str(each)), each) for each in keys), key=itemgetter(0)):
            await asyncio.sleep(began_s + part * self._interval_s - now_s())
            self._queue.add(key, behind=True)
        await asyncio.sleep(began_s + self._interval_s - now_s())

    async def _keys(self) -> set[Key]:
        """Those that are there, and those that the queue knows: one may be gone without an event."""
        while True:
            try:
                lists = [await self._cluster.list(DEPLOYMENTS, each) for each in self._namespaces or (None,)]
            except ApiError as error:
                _log.warning("the resync is put off: %s", error)
                await asyncio.sleep(max(_PUT_OFF_S, error.retry_after_s))
                continue
            listed = {Key(item["metadata"]["namespace"], item["metadata"]["name"]) for items in lists for item in items}
            return listed.union(self._queue.keys)
