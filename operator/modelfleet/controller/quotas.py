"""The ResourceQuotas of namespaces, read now and again: growing asks for no more than they leave. I/O: reads only."""

import asyncio
import logging

from modelfleet.controller.cluster import ApiError, Cluster
from modelfleet.controller.resources import QUOTAS
from modelfleet.core import raw
from modelfleet.core.snapshot import Raw

_log = logging.getLogger(__name__)

FRESH_S = 15.0
"""All models of a namespace share one list for so long. What a quota refuses meanwhile is told by the API server."""


class Quotas:
    """The last list of each namespace."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lists: dict[str, tuple[float, tuple[Raw, ...]]] = {}
        self._unread: set[str] = set()

    def forget(self, namespace: str) -> None:
        """Something was written there: the next look reads anew."""
        self._lists.pop(namespace, None)

    async def of(self, namespace: str, deployment: Raw) -> tuple[Raw, ...]:
        """The quotas that bear on a ModelDeployment; none for one that samples do not scale."""
        if raw.text(deployment, "spec", "scaling", "mode") == "Manual":
            return ()
        now_s = asyncio.get_running_loop().time()
        at_s, quotas = self._lists.get(namespace, (float("-inf"), ()))
        if now_s - at_s >= FRESH_S:
            try:
                quotas = await self._cluster.list(QUOTAS, namespace)
                self._unread.discard(namespace)
            except ApiError as error:
                # Nothing that runs depends on them: what they refuse, the API server says itself.
                level = logging.DEBUG if namespace in self._unread else logging.WARNING
                _log.log(level, "the ResourceQuotas of namespace %s are not read: %s", namespace, error)
                self._unread.add(namespace)
            self._lists[namespace] = now_s, quotas
        return quotas
