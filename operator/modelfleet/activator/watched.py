"""All objects of a kind that match, kept current by a list and then a watch. I/O: reads.

What was seen stays while the API server is away: an activator goes on with it.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping

from modelfleet.controller.cluster import ApiError
from modelfleet.controller.resources import Resource
from modelfleet.controller.streams import GoneError, Streams
from modelfleet.core import raw
from modelfleet.core.snapshot import Raw

_log = logging.getLogger(__name__)

_FIRST_S, _MOST_S = 0.5, 15.0

Key = tuple[str, str]


class Watched:
    """The objects, by namespace and name. `changed` is called with the keys of those that came, changed or went."""

    def __init__(self, streams: Streams, resource: Resource, changed: Callable[[frozenset[Key]], None]) -> None:
        self._streams, self._resource, self._changed = streams, resource, changed
        self._objects: dict[Key, Raw] = {}
        self._version = ""
        self.whole = False
        """The list was read to its end once."""

    @property
    def objects(self) -> Mapping[Key, Raw]:
        """What there is."""
        return self._objects

    async def run(self) -> None:
        """Follows until cancelled."""
        wait_s = _FIRST_S
        while True:
            asked_s, heard = 0.0, self._version
            try:
                if not self._version:
                    await self._list()
                await self._watch()
            except GoneError:
                self._version = ""
            except ApiError as error:
                asked_s = error.retry_after_s
                _log.warning("%s are not followed now, what was seen counts: %s", self._resource.plural, error)
            wait_s = _FIRST_S if self._version != heard else min(wait_s * 2, _MOST_S)
            await asyncio.sleep(max(wait_s, asked_s))

    async def _list(self) -> None:
        seen: dict[Key, Raw] = {}
        token = ""
        while True:
            page = await self._streams.page(self._resource, token)
            seen |= {key_of(item): item for item in page.items}
            token = page.token
            if not token:
                break
        before, self._objects = self._objects, seen
        self._version, self.whole = page.version, True
        self._changed(frozenset(before.keys() | seen.keys()))

    async def _watch(self) -> None:
        async for change in self._streams.watch(self._resource, self._version):
            self._version = raw.text(change.object, "metadata", "resourceVersion") or self._version
            if change.type == "BOOKMARK":
                continue
            key = key_of(change.object)
            if change.type == "DELETED":
                self._objects.pop(key, None)
            else:
                self._objects[key] = change.object
            self._changed(frozenset({key}))


def key_of(item: Raw) -> Key:
    """Namespace and name."""
    return raw.text(item, "metadata", "namespace"), raw.name(item)
