"""One fresh snapshot of a ModelDeployment's world, whole or not at all. I/O: reads only."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from math import inf

from modelfleet.api import names
from modelfleet.controller.activators import Activators
from modelfleet.controller.cluster import Cluster
from modelfleet.controller.metrics.book import Book
from modelfleet.controller.metrics.workers import workers
from modelfleet.controller.quotas import Quotas
from modelfleet.controller.resources import (
    CHILDREN,
    CLASSES,
    DEPLOYMENTS,
    PROFILES,
)
from modelfleet.controller.triggers import Key
from modelfleet.core import raw
from modelfleet.core.intent import plans_anew
from modelfleet.core.measured import measured_part
from modelfleet.core.pods import is_behind, says_ready
from modelfleet.core.profiling import has_steps
from modelfleet.core.scaling.samples import Samples
from modelfleet.core.snapshot import Inventory, Raw, Settings, World

_BY_KIND = {resource.kind: resource for resource in CHILDREN}


class Gatherer:
    """Reads worlds, and remembers between reads what no read shows.

    This is: since when a pod has been out of the Service, when profiles were looked at, which child names other objects
    were found to hold, which pods there were (one whose label was edited is no longer listed), and what the API server
    last refused. Losing it
    costs time (a drain waits anew, a create is tried once), never correctness.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        now: Callable[[], datetime],
        book: Book | None = None,
        activators: Activators | None = None,
    ) -> None:
        """`book` is told which pods to read, and has what was read; None where nothing is measured."""
        self._cluster, self._settings, self._now, self._book = cluster, settings, now, book
        self._activators = activators or Activators(cluster)
        self._told: dict[Key, tuple[str, float]] = {}
        self._profiled_s: dict[Key, float] = {}
        self._not_serving_since: dict[Key, dict[str, float]] = {}
        self._serving_since: dict[Key, dict[str, float]] = {}
        self._taken: dict[Key, set[tuple[str, str]]] = {}
        self._refused: dict[Key, str] = {}
        self._pods: dict[Key, set[str]] = {}
        self._quotas = Quotas(cluster)
        self._uids: dict[Key, str] = {}

    async def gather(self, key: Key) -> World | None:
        """The world now; None if the ModelDeployment is gone. Raises ApiError if any part of it could not be read."""
        # All at once: whatever changed in between makes an event, and every write is bound to what was read.
        deployment, (pods, services, config_maps, revisions, jobs, budgets, policies, classes) = await asyncio.gather(
            self._cluster.get(DEPLOYMENTS, key.name, key.namespace), self._lists(key)
        )
        if deployment is None:
            self.forget(key)
            return None
        if self._uids.setdefault(key, raw.uid(deployment)) != raw.uid(deployment):
            # Deleted and made again between two looks: what is remembered is of another object.
            self.forget(key)
            self._uids[key] = raw.uid(deployment)
        self._look_for_missed(key, pods)
        world = World(
            deployment=deployment,
            classes={item["metadata"]["name"]: item for item in classes},
            revisions=revisions,
            pods=pods,
            config_maps=config_maps,
            services=services,
            jobs=jobs,
            budgets=budgets,
            policies=policies,
            taken=await self._read_taken(key),
            not_serving_s=_since(self._not_serving_since, key, (raw.uid(pod) for pod in pods if not is_behind(pod))),
            serving_s=_since(self._serving_since, key, map(raw.uid, filter(says_ready, filter(is_behind, pods)))),
            samples=self._samples(key, deployment, pods),
            told_s=self._told_s(key, deployment),
            quotas=await self._quotas.of(key.namespace, deployment) if self._book is not None else (),
            refused=self._refused.get(key, ""),
            settings=self._settings,
            now=self._now(),
        )
        world = replace(world, profiles=await self._profiles(key, world.samples))
        world = await self._activators.seen_in(key, world)
        if not plans_anew(world):
            return world
        # Nodes come from the placer's books: 1,250 of them are 100 MB on the wire, and many keys may plan at once.
        return replace(world, inventory=Inventory(profiles=await self._cluster.list(PROFILES, key.namespace)))

    def name_is_taken(self, key: Key, kind: str, name: str) -> None:
        """A create met another object under this name: show it in this key's worlds for as long as it exists."""
        self._taken.setdefault(key, set()).add((kind, name))

    def has_written(self, key: Key) -> None:
        """Something of a key was written, which quotas of its namespace may count."""
        self._quotas.forget(key.namespace)

    def was_refused(self, key: Key, message: str) -> None:
        """What the API server said to the last writes; empty: it took them all."""
        if message:
            self._refused[key] = message
        else:
            self._refused.pop(key, None)

    def forget(self, key: Key) -> None:
        """Drop what is remembered of a key."""
        self._uids.pop(key, None)
        self._refused.pop(key, None)
        self._not_serving_since.pop(key, None)
        self._serving_since.pop(key, None)
        self._taken.pop(key, None)
        self._pods.pop(key, None)
        self._told.pop(key, None)
        self._profiled_s.pop(key, None)
        self._activators.forget(key)
        if self._book is not None:
            self._book.forget(key)

    async def _profiles(self, key: Key, samples: Samples | None) -> tuple[Raw, ...] | None:
        """What is written of measurements, looked at seldom: that is how often it is written at most."""
        now_s = asyncio.get_running_loop().time()
        if not has_steps(samples) or now_s - self._profiled_s.get(key, -inf) < self._settings.profiles_s:
            return None
        self._profiled_s[key] = now_s
        return await self._cluster.list(PROFILES, key.namespace, _of(key))

    def _look_for_missed(self, key: Key, pods: tuple[Raw, ...]) -> None:
        """A pod that was listed before and is not now is gone, or its label was edited: it is read by its name."""
        listed = {pod["metadata"]["name"] for pod in pods}
        held = self._taken.setdefault(key, set())
        held -= {("Pod", name) for name in listed}
        held |= {("Pod", name) for name in self._pods.get(key, set()) - listed}
        self._pods[key] = listed

    async def _lists(self, key: Key) -> tuple[tuple[Raw, ...], ...]:
        children = (self._cluster.list(kind, key.namespace, _of(key)) for kind in CHILDREN)
        return tuple(await asyncio.gather(*children, self._cluster.list(CLASSES)))

    async def _read_taken(self, key: Key) -> dict[tuple[str, str], Raw]:
        found = {}
        for kind, name in sorted(self._taken.get(key, ())):
            other = await self._cluster.get(_BY_KIND[kind], name, key.namespace)
            if other is not None:
                found[kind, name] = other
        if found:
            self._taken[key] = set(found)
        else:
            self._taken.pop(key, None)
        return found

    def _samples(self, key: Key, deployment: Raw, pods: tuple[Raw, ...]) -> Samples | None:
        if self._book is None:
            return None
        self._book.follow(key, workers(pods, key.name, deployment["metadata"]["uid"]))
        return self._book.samples(key)

    def _told_s(self, key: Key, deployment: Raw) -> float:
        """Since when the measured part of the status stays the same, as far as this process saw."""
        now, stands = asyncio.get_running_loop().time(), measured_part(deployment)
        before = self._told.get(key)
        if before is None or before[0] != stands:
            # What another process wrote may be of any age: the first may be replaced at once.
            self._told[key] = (stands, now if before is not None else -inf)
        return now - self._told[key][1]


def _since(known: dict[Key, dict[str, float]], key: Key, uids: Iterable[str]) -> dict[str, float]:
    """For how long each of these has been seen in a row; `known` remembers since when, and no others of the key."""
    now_s, before = asyncio.get_running_loop().time(), known.get(key, {})
    since_s = {uid: before.get(uid, now_s) for uid in uids}
    if since_s:
        known[key] = since_s
    else:
        known.pop(key, None)
    return {uid: now_s - each for uid, each in since_s.items()}


def _of(key: Key) -> str:
    """Selects what carries our label of a key; a name may be longer than a label."""
    return f"{names.DEPLOYMENT_LABEL}={names.child(key.name)}"
