"""Does what was decided: effects in order, then the status. I/O: writes only."""

import asyncio
import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from pydantic import ValidationError

from modelfleet.api import names
from modelfleet.api.status import ModelDeploymentStatus
from modelfleet.controller.cluster import Cluster, Conflict, Missing, Refused, WriteResult, Written
from modelfleet.controller.resources import DEPLOYMENTS, PODS, resource_of
from modelfleet.controller.triggers import Key
from modelfleet.core.effects import Apply, Create, Delete, Effect, Forget, Lift, Note
from modelfleet.core.snapshot import Raw

_log = logging.getLogger(__name__)


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
    """Runs the effects one after the other, but together what is created or lifted in a row: the plan, then the rest.

    Raises ApiError, with no write under way; what was done by then is found by the next reconcile.
    """
    done = Execution()
    for group in _groups(effects):
        answers = await asyncio.gather(*(_run(cluster, key, effect) for effect in group), return_exceptions=True)
        results = [_answered(answer) for answer in answers]
        done = replace(done, writes=done.writes + sum(isinstance(result, Written) for result in results))
        for effect, result in zip(group, results, strict=True):
            if not _is_done(effect, result):
                return _stopped(done, effect, result)
    return done


def _answered(answer: WriteResult | BaseException) -> WriteResult:
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _is_done(effect: Effect, result: WriteResult) -> bool:
    if isinstance(effect, Note):
        _tell(effect, result)
        return True
    # Of a deletion: somebody was faster.
    return isinstance(result, Written) or (isinstance(effect, Delete) and isinstance(result, Missing))


def _tell(note: Note, result: WriteResult) -> None:
    """What became of a note that could not be written: with a conflict at its creation, somebody else has the name."""
    if isinstance(result, Written):
        return
    whose = isinstance(result, Conflict) and not note.uid
    _log.warning(
        "what was measured is not written down: %s",
        "the name is somebody else's, whose object is left as it is" if whose else str(result),
        extra={"object": f"{note.manifest['kind']} {note.manifest['metadata']['name']}"},
    )


def _groups(effects: Iterable[Effect]) -> Iterator[list[Effect]]:
    """What is created in a row builds on nothing of each other, but pods on the plan; nor do gates that are lifted in a
    row, but a leader's on those of its group. Other effects stand alone."""
    for kind, group in groupby(effects, _together):
        if kind is None:
            yield from ([effect] for effect in group)
        else:
            yield list(group)


def _together(effect: Effect) -> str | None:
    match effect:
        case Create(manifest):
            return "the plan" if manifest["kind"] in ("ConfigMap", "ControllerRevision") else "pods and Service"
        case Lift(leads=leads):
            return "leaders" if leads else "others"
    return None


async def _run(cluster: Cluster, key: Key, effect: Effect) -> WriteResult:
    match effect:
        case Create(manifest):
            return await cluster.create(manifest)
        case Apply(manifest, uid):
            return await cluster.apply(manifest, uid)
        case Delete(api_version, kind, name, uid, grace_s):
            return await cluster.delete(resource_of(api_version, kind), name, key.namespace, uid, grace_s)
        case Lift(name, patch):
            return await cluster.merge(PODS, name, key.namespace, patch)
        case Note(manifest, uid):
            return await (cluster.apply(manifest, uid) if uid else cluster.create(manifest))
        case Forget(activator, manifest):
            return await cluster.apply_status(manifest, f"{names.ACTIVATOR}-{activator}")


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
        status = _ours(status)
        wanted, stored = _canonical(status), _canonical(_ours(deployment.get("status") or {}))
        if wanted == stored or self._settled.get(metadata["uid"]) == (wanted, stored):
            return None
        header = {
            "apiVersion": deployment["apiVersion"],
            "kind": deployment["kind"],
            # With the version that was read, so that a status never lands on a successor of the same name, nor speaks
            # of a spec that nobody has looked at. (A uid is not looked at here: run on 1.36.3.)
            "metadata": {key: metadata[key] for key in ("name", "namespace", "resourceVersion")},
        }
        if not _mergeable(deployment.get("status") or {}):
            nothing = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": None}
            cleared = await self._cluster.merge(DEPLOYMENTS, metadata["name"], metadata["namespace"], nothing, "status")
            if not isinstance(cleared, Written):
                return cleared
            header["metadata"] |= {"resourceVersion": cleared.object["metadata"]["resourceVersion"]}
        result = await self._cluster.apply_status(header | {"status": status})
        if isinstance(result, Written):
            self._settled[metadata["uid"]] = (wanted, _canonical(_ours(result.object.get("status") or {})))
        return result

    def forget(self, uid: str) -> None:
        """Drop what is remembered of a ModelDeployment."""
        self._settled.pop(uid, None)


def _mergeable(status: Mapping[str, Any]) -> bool:
    """Whether the server can apply onto a stored status. An older schema may have let entries into a list without the
    key by which entries are merged; each apply would be answered with an error, for ever."""
    try:
        ModelDeploymentStatus.model_validate(status, by_alias=True, by_name=False)
    except ValidationError:
        return False
    return True


def _ours(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """Without what activators write: each owns its entry, and applying it would make it ours."""
    return {key: part for key, part in status.items() if key != "demand"}


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
