"""All objects of a kind that match, kept current by a list and then a watch. I/O: reads.

What was seen stays while the API server is away: an activator goes on with it. Of each object only what `keep` makes of
it is kept: whole ones of a thousand models take 100 MB.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from modelfleet.controller.cluster import ApiError
from modelfleet.controller.resources import Resource
from modelfleet.controller.streams import GoneError, Streams
from modelfleet.core import raw
from modelfleet.core.snapshot import Raw

_log = logging.getLogger(__name__)

_FIRST_S, _MOST_S = 0.5, 15.0

_LASTED_S = 30.0
"""A watch that lasted so long was ended by the server, which does so every few minutes: the next begins at once."""

Key = tuple[str, str]
T = TypeVar("T")
Changed = Callable[[frozenset[Key], Mapping[Key, T]], None]


class Watched(Generic[T]):
    """The objects, by namespace and name. `changed` is called with the keys of those that came, changed or went, and
    with all that there are."""

    def __init__(self, streams: Streams, resource: Resource, keep: Callable[[Raw], T], changed: Changed[T]) -> None:
        self._streams, self._resource, self._keep, self._changed = streams, resource, keep, changed
        self._objects: dict[Key, T] = {}
        self._version = ""
        self.whole = False
        """The list was read to its end once."""

    @property
    def objects(self) -> Mapping[Key, T]:
        """What there is."""
        return self._objects

    async def run(self) -> None:
        """Follows until cancelled."""
        wait_s = _FIRST_S
        loop = asyncio.get_running_loop()
        while True:
            asked_s, heard, begun_s = 0.0, self._version, loop.time()
            try:
                if not self._version:
                    await self._list()
                await self._watch()
                if loop.time() - begun_s >= _LASTED_S:
                    wait_s = _FIRST_S
                    continue
            except GoneError:
                self._version = ""
            except ApiError as error:
                asked_s = error.retry_after_s
                _log.warning("%s are not followed now, what was seen counts: %s", self._resource.plural, error)
            wait_s = _FIRST_S if self._version != heard else min(wait_s * 2, _MOST_S)
            await asyncio.sleep(max(wait_s, asked_s))

    async def _list(self) -> None:
        seen: dict[Key, T] = {}
        token = ""
        while True:
            page = await self._streams.page(self._resource, token)
            seen |= {key_of(item): self._keep(item) for item in page.items}
            token = page.token
            if not token:
                break
        before, self._objects = self._objects, seen
        self._version, self.whole = page.version, True
        self._changed(frozenset(before.keys() | seen.keys()), self._objects)

    async def _watch(self) -> None:
        async for change in self._streams.watch(self._resource, self._version):
            self._version = raw.text(change.object, "metadata", "resourceVersion") or self._version
            if change.type == "BOOKMARK":
                continue
            key = key_of(change.object)
            if change.type == "DELETED":
                self._objects.pop(key, None)
            else:
                self._objects[key] = self._keep(change.object)
            self._changed(frozenset({key}), self._objects)


def key_of(item: Raw) -> Key:
    """Namespace and name."""
    return raw.text(item, "metadata", "namespace"), raw.name(item)
