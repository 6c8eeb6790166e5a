"""Does what was decided: effects in order, then the status. I/O: writes only."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from modelfleet.controller.cluster import Cluster, Conflict, Missing, Refused, WriteResult, Written, resource_of
from modelfleet.controller.triggers import Key
from modelfleet.core.effects import Apply, Create, Delete, Effect
from modelfleet.core.snapshot import Raw


@dataclass(frozen=True)
class Execution:
    """How far the effects got. The first that could not be done ends it, because later ones may build on it.

    `taken`: (kind, name) that a create met another object under. `stale`: the world is not what was read; read it
    again. `refused`: what the API server said about an object that it does not take.
    """

    writes: int = 0
    taken: tuple[str, str] | None = None
    stale: str | None = None
    refused: str | None = None

    def after(self, earlier: "Execution") -> "Execution":
        """This one, with what an earlier one of the same reconcile wrote."""
        return replace(self, writes=self.writes + earlier.writes)


async def execute(cluster: Cluster, key: Key, effects: Iterable[Effect]) -> Execution:
    """Runs the effects one after the other. Raises ApiError; what was done by then is found by the next reconcile."""
    done = Execution()
    for effect in effects:
        result = await _run(cluster, key, effect)
        if isinstance(result, Written):
            done = replace(done, writes=done.writes + 1)
            continue
        if isinstance(effect, Delete) and isinstance(result, Missing):
            continue  # somebody was faster
        return _stopped(done, effect, result)
    return done


async def _run(cluster: Cluster, key: Key, effect: Effect) -> WriteResult:
    match effect:
        case Create(manifest):
            return await cluster.create(manifest)
        case Apply(manifest, uid):
            return await cluster.apply(manifest, uid)
        case Delete(api_version, kind, name, uid):
            return await cluster.delete(resource_of(api_version, kind), name, key.namespace, uid)


def _stopped(done: Execution, effect: Effect, result: WriteResult) -> Execution:
    match effect, result:
        case Create(manifest), Conflict():
            return replace(done, taken=(str(manifest["kind"]), str(manifest["metadata"]["name"])))
        case _, Refused(message):
            return replace(done, refused=message)
        case _, Conflict(message) | Missing(message):
            return replace(done, stale=message)
    raise AssertionError(f"{effect} did not stop at {result}")


class StatusWriter:
    """Writes a status only if it says something else than what is stored."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        # By uid: a status that was wanted, and what the server made of it. They differ for good where another manager
        # owns a field of the status, and then equality alone would write for ever.
        self._settled: dict[str, tuple[bytes, bytes]] = {}

    async def write(self, deployment: Raw, status: Mapping[str, Any]) -> WriteResult | None:
        """The server's answer, or None where nothing had to be written."""
        metadata = deployment["metadata"]
        wanted, stored = _canonical(status), _canonical(deployment.get("status") or {})
        if wanted == stored or self._settled.get(metadata["uid"]) == (wanted, stored):
            return None
        result = await self._cluster.apply_status(
            {
                "apiVersion": deployment["apiVersion"],
                "kind": deployment["kind"],
                # With the version that was read, so that a status never lands on a successor of the same name, nor
                # speaks of a spec that nobody has looked at. (A uid is not looked at here: run on 1.36.3.)
                "metadata": {key: metadata[key] for key in ("name", "namespace", "resourceVersion")},
                "status": status,
            }
        )
        if isinstance(result, Written):
            self._settled[metadata["uid"]] = (wanted, _canonical(result.object.get("status") or {}))
        return result

    def forget(self, uid: str) -> None:
        """Drop what is remembered of a ModelDeployment."""
        self._settled.pop(uid, None)


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
