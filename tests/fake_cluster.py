"""A cluster in memory behind the Cluster protocol. Kept honest by tests/apiserver/test_cluster_contract.py.

Faithful where the controller's decisions depend on it: names, uids, resource versions, generations, field ownership of
server-side apply, label lists, preconditions, finalizers. It has no admission, no defaults, no controllers and no
garbage collector.
"""

import asyncio
import itertools
import pickle
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from modelfleet.api import names
from modelfleet.controller.cluster import Conflict, Missing, Refused, WriteResult, Written, require_controller
from modelfleet.controller.resources import CLASSES, DEPLOYMENTS, EVENTS, PROFILES, Resource, resource_of

Object = dict[str, Any]
Address = tuple[str, str | None, str]  # plural, namespace, name
Path = tuple[Any, ...]

_HAS_STATUS = {DEPLOYMENTS.plural, "pods", "services"}
_TOP_LEVEL = {"apiVersion", "kind", "metadata", "spec", "status", "data", "binaryData", "immutable", "revision"}
_EVENT_FIELDS = {
    "eventTime",
    "type",
    "reason",
    "note",
    "action",
    "regarding",
    "reportingController",
    "reportingInstance",
}
_LIST_KEYS = {
    "conditions": "type",
    "containers": "name",
    "volumes": "name",
    "env": "name",
    "ownerReferences": "uid",
    "demand": "activator",
}
_ATOMIC = {"selector"}  # a Service's: replaced as a whole, though it is a map


class FakeCluster:
    """Implements modelfleet.controller.cluster.Cluster."""

    def __init__(self, *namespaces: str) -> None:
        self._namespaces = {None, *(namespaces or ("default",))}
        self._objects: dict[Address, Object] = {}
        self._applied: dict[Address, dict[str, Object]] = {}
        self._ids = itertools.count(1)
        self.writes: list[tuple[str, str, str]] = []
        """Every accepted write request: verb, kind, name."""
        self.faults: list[Callable[[str, str, str], WriteResult | None]] = []
        """Asked before each write with verb, kind and name; may raise, or return what the server answers instead."""
        self.groups = {names.API_VERSION: frozenset({DEPLOYMENTS.plural, CLASSES.plural, PROFILES.plural})}

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object | None:
        await asyncio.sleep(0)
        stored = self._objects.get((resource.plural, namespace, name))
        return _copied(stored)

    async def list(
        self, resource: Resource, namespace: str | None = None, labels: str | None = None
    ) -> tuple[Object, ...]:
        await asyncio.sleep(0)
        return tuple(
            _copied(stored)
            for (plural, space, _), stored in sorted(self._objects.items(), key=lambda item: str(item[0]))
            if plural == resource.plural and namespace in (None, space) and _matches(stored, labels)
        )

    async def create(self, manifest: Any) -> WriteResult:
        address, name = self._address(manifest), manifest["metadata"]["name"]
        if (answer := await self._fault("create", manifest["kind"], name)) is not None:
            return answer
        if unknown := set(manifest) - _TOP_LEVEL - (_EVENT_FIELDS if manifest["kind"] == EVENTS.kind else set()):
            return Refused(f'strict decoding error: unknown field "{min(unknown)}"')
        if address[1] not in self._namespaces:
            return Missing(f'namespaces "{address[1]}" not found')
        if address in self._objects:
            return Conflict(f'{address[0]} "{name}" already exists')
        self._objects[address] = self._born(manifest, address)
        self.writes.append(("create", manifest["kind"], name))
        return Written(_copied(self._objects[address]))

    async def apply(self, manifest: Any, uid: str) -> WriteResult:
        require_controller(manifest)
        address, name = self._address(manifest), manifest["metadata"]["name"]
        if (answer := await self._fault("apply", manifest["kind"], name)) is not None:
            return answer
        stored = self._objects.get(address)
        if stored is None or stored["metadata"]["uid"] != uid:
            return Conflict(f"uid mismatch: the provided object specified uid {uid}")
        self.writes.append(("apply", manifest["kind"], name))
        return self._merged(address, manifest, names.FIELD_MANAGER)

    async def apply_status(self, manifest: Any, manager: str = "") -> WriteResult:
        address, name = self._address(manifest), manifest["metadata"]["name"]
        if (answer := await self._fault("apply_status", manifest["kind"], name)) is not None:
            return answer
        stored = self._objects.get(address)
        if stored is None:
            return Missing(f'{address[0]} "{name}" not found')
        if manifest["metadata"]["resourceVersion"] != stored["metadata"]["resourceVersion"]:
            return Conflict("the object has been modified; please apply your changes to the latest version")
        self.writes.append(("apply_status", manifest["kind"], name))
        return self._merged(address, {"status": manifest["status"]}, manager or names.STATUS_MANAGER)

    async def merge(self, resource: Resource, name: str, namespace: str, patch: Any, sub: str = "") -> WriteResult:
        if (answer := await self._fault("patch", resource.kind, name)) is not None:
            return answer
        stored = self._objects.get((resource.plural, namespace, name))
        if stored is None:
            return Missing(f'{resource.plural} "{name}" not found')
        wanted = patch.get("metadata", {}).get("resourceVersion")
        if wanted not in (None, stored["metadata"]["resourceVersion"]):
            return Conflict("the object has been modified; please apply your changes to the latest version")
        self.writes.append(("patch", resource.kind, name))
        return self._store((resource.plural, namespace, name), _merge_patched(stored, patch))

    async def delete(
        self, resource: Resource, name: str, namespace: str, uid: str, grace_s: int | None = None
    ) -> WriteResult:
        if (answer := await self._fault("delete", resource.kind, name)) is not None:
            return answer
        address = (resource.plural, namespace, name)
        stored = self._objects.get(address)
        if stored is None:
            return Missing(f'{resource.plural} "{name}" not found')
        if stored["metadata"]["uid"] != uid:
            return Conflict(f"the UID in the precondition ({uid}) does not match")
        self.writes.append(("delete", resource.kind, name))
        if stored["metadata"].get("finalizers") or _waits_for_its_kubelet(stored):
            marked = {"deletionTimestamp": _time()} | stored["metadata"]  # a second DELETE does not begin it anew
            return self._store(address, {**stored, "metadata": marked})
        return Written(self._objects.pop(address))

    async def served(self, group_version: str) -> frozenset[str]:
        return self.groups.get(group_version, frozenset())

    # What the world does to a cluster, for tests.

    def put(self, manifest: Any) -> Object:
        """As a user's `kubectl replace` or create; a changed spec is a new generation."""
        address = self._address(manifest)
        if address not in self._objects:
            self._objects[address] = self._born(manifest, address)
            return _copied(self._objects[address])
        kept = self._objects[address]["metadata"]
        metadata = {**{k: kept[k] for k in ("creationTimestamp", "generation")}, **manifest["metadata"]}
        metadata["uid"] = kept["uid"]  # another uid is another object, and that one is there
        result = self._store(address, {**manifest, "metadata": metadata})
        return dict(result.object)

    def all_of(self, plural: str, namespace: str | None = None) -> tuple[Object, ...]:
        """The stored objects of a kind, by name, to be looked at and not changed."""
        found = sorted((key for key in self._objects if key[0] == plural), key=str)
        return tuple(self._objects[key] for key in found if namespace in (None, key[1]))

    def remove(self, resource: Resource, name: str, namespace: str | None) -> None:
        """As a deletion by somebody else."""
        del self._objects[resource.plural, namespace, name]

    async def _fault(self, verb: str, kind: str, name: str) -> WriteResult | None:
        await asyncio.sleep(0)
        answers = (fault(verb, kind, name) for fault in self.faults)
        return next((answer for answer in answers if answer is not None), None)

    def _address(self, manifest: Any) -> Address:
        resource = resource_of(manifest["apiVersion"], manifest["kind"])
        return resource.plural, manifest["metadata"].get("namespace"), manifest["metadata"]["name"]

    def _born(self, manifest: Any, address: Address) -> Object:
        number = next(self._ids)
        born = _copied(dict(manifest))
        if address[0] in _HAS_STATUS:
            born.pop("status", None)
        own = {"uid": f"uid-{number}", "resourceVersion": str(number), "creationTimestamp": _time(), "generation": 1}
        return _with_metadata(born, **own)

    def _store(self, address: Address, new: Object) -> Written:
        old = self._objects[address]
        own = {key: old["metadata"][key] for key in ("resourceVersion", "generation")}
        new = _with_metadata(new, **own)
        if new != old:
            grown = int(new.get("spec") != old.get("spec"))
            new = _with_metadata(
                new, resourceVersion=str(next(self._ids)), generation=old["metadata"]["generation"] + grown
            )
            self._objects[address] = new
        return Written(_copied(self._objects[address]))

    def _merged(self, address: Address, manifest: Any, manager: str) -> Written:
        """Server-side apply: what this manager no longer sends and nobody else applied goes; what it sends is set."""
        managers = self._applied.setdefault(address, {})
        before, others = managers.get(manager, {}), [m for key, m in managers.items() if key != manager]
        stored = _copied(self._objects[address])
        for path in set(_leaves(before)) - set(_leaves(manifest)) - {p for other in others for p in _leaves(other)}:
            _remove(stored, path)
        managers[manager] = _copied(dict(manifest))
        return self._store(address, _set(stored, manifest))


def _copied(value: Any) -> Any:
    """A deep copy; of JSON values ten times as fast as `copy.deepcopy`, which the fuzzer's million objects feel."""
    return pickle.loads(pickle.dumps(value, -1))


def _time() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _waits_for_its_kubelet(stored: Object) -> bool:
    """A pod on a node goes when its kubelet has ended it; without a node, or ended, it goes at once."""
    ended = stored.get("status", {}).get("phase") in ("Failed", "Succeeded")
    return stored["kind"] == "Pod" and "nodeName" in stored.get("spec", {}) and not ended


def _with_metadata(stored: Object, **fields: Any) -> Object:
    return {**stored, "metadata": {**stored["metadata"], **fields}}


def _matches(stored: Object, labels: str | None) -> bool:
    have = stored["metadata"].get("labels") or {}
    return all(
        have.get(key) == value for key, _, value in (part.partition("=") for part in (labels or "").split(",") if part)
    )


def _merge_patched(stored: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return _copied(patch)
    base = stored if isinstance(stored, dict) else {}
    changed = {key: _merge_patched(base.get(key), value) for key, value in patch.items() if value is not None}
    return {key: value for key, value in base.items() if key not in patch} | changed


def _leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    """The paths that an apply of `value` owns: entries of keyed lists are steps by key, other lists are one leaf."""
    if isinstance(value, dict) and value and not (path and path[-1] in _ATOMIC):
        for key, part in value.items():
            if path == () and key in ("apiVersion", "kind"):
                continue
            yield from _leaves(part, (*path, key))
    elif isinstance(value, list) and (key := _LIST_KEYS.get(str(path[-1]) if path else "")):
        for entry in value:
            yield from _leaves(entry, (*path, (key, entry[key])))
    elif path:
        yield path


def _remove(stored: Any, path: Path) -> None:
    if len(path) > 1 and isinstance(path[-2], tuple) and path[-1] == path[-2][0]:
        path = path[:-1]  # without its key an entry is gone
    *above, last = path
    for step in above:
        stored = _child(stored, step)
        if stored is None:
            return
    if isinstance(last, tuple):
        stored[:] = [entry for entry in stored if entry.get(last[0]) != last[1]]
    else:
        stored.pop(last, None)


def _child(stored: Any, step: Any) -> Any:
    if isinstance(step, tuple):
        return next((entry for entry in stored if entry.get(step[0]) == step[1]), None)
    return stored.get(step)


def _set(stored: Any, wanted: Any, name: str = "") -> Any:
    if isinstance(wanted, dict) and name not in _ATOMIC:
        base = stored if isinstance(stored, dict) else {}
        return {**base, **{key: _set(base.get(key), value, key) for key, value in wanted.items()}}
    if isinstance(wanted, list) and (key := _LIST_KEYS.get(name)):
        have = {entry[key]: entry for entry in stored or ()}
        merged = have | {entry[key]: _set(have.get(entry[key]), entry) for entry in wanted}
        return list(merged.values())
    return _copied(wanted)
