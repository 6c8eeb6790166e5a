"""Whether an observed child still is what we render, and what puts it back. Pure.

An observed object is equal if it holds everything that we render; what the server or others add beside it is theirs.
Sections whose every entry matters are compared whole: a Service's selector and ports, a ConfigMap's data. What
server-side apply cannot take away (an entry that another manager added to a list, immutable data) is put back by
deleting and creating.
"""

from collections.abc import Mapping
from typing import Any

from modelfleet.api import names
from modelfleet.core import raw
from modelfleet.core.effects import Apply, Create, Delete, Effect, Manifest

_WHOLE = (("spec", "selector"), ("data",))
"""A selector with one more key selects nothing, and the worker reads all of its plan."""


def covers(observed: Any, wanted: Any) -> bool:
    """Whether `observed` holds all of `wanted`. The server leaves out what is false or empty, so absent equals that."""
    if observed == wanted:
        return True
    if isinstance(wanted, Mapping):
        return all(covers(raw.at(observed, key), part) for key, part in wanted.items())
    if isinstance(wanted, list | tuple):
        same = isinstance(observed, list | tuple) and len(observed) == len(wanted)
        return same and all(map(covers, observed, wanted))
    return observed is None and not wanted


def put_back(observed: Any, manifest: Manifest) -> tuple[Effect, ...]:
    """The effects that make an observed child of ours equal to `manifest` again; none if it is, or if it is going."""
    going = raw.at(observed, "metadata", "deletionTimestamp") is not None
    content = {key: part for key, part in manifest.items() if key not in ("apiVersion", "kind", "metadata")}
    whole = all(raw.mapping(observed, *path) == raw.mapping(manifest, *path) for path in _WHOLE)
    if going or (whole and covers(observed, content) and labels_kept(observed, manifest)):
        return ()
    if _apply_suffices(observed, manifest):
        return (Apply(manifest, raw.uid(observed)),)
    return (delete(observed, manifest), Create(manifest))


def labels_kept(observed: Any, manifest: Manifest) -> bool:
    """Whether all labels that we give are there with our values."""
    return covers(raw.mapping(observed, "metadata", "labels"), raw.mapping(manifest, "metadata", "labels"))


def delete(observed: Any, manifest: Manifest) -> Delete:
    """The deletion of exactly the observed object."""
    return Delete(str(manifest["apiVersion"]), str(manifest["kind"]), raw.name(observed), raw.uid(observed))


def image_edited(pod: Any, image: str) -> bool:
    """Whether somebody changed the worker's image in place.

    Only an owner of the field other than us proves that: a mutating webhook that rewrites every image at creation
    leaves the field to us, and putting that back would never end.
    """
    worker = next((c for c in raw.items(pod, "spec", "containers") if c.get("name") == names.WORKER_CONTAINER), {})
    if raw.text(worker, "image") in ("", image):
        return False
    path = ("fieldsV1", "f:spec", "f:containers", f'k:{{"name":"{names.WORKER_CONTAINER}"}}', "f:image")
    owners = (entry for entry in raw.items(pod, "metadata", "managedFields") if raw.at(entry, *path) is not None)
    return any(entry.get("manager") != names.FIELD_MANAGER for entry in owners)


def _apply_suffices(observed: Any, manifest: Manifest) -> bool:
    """Whether server-side apply can put the object back."""
    if manifest["kind"] == "ConfigMap":
        return bool(raw.mapping(observed, "data") == manifest["data"])
    return _ports(observed) <= _ports(manifest)


def _ports(service: Any) -> set[tuple[int, str]]:
    """The keys by which server-side apply merges ports."""
    return {
        (raw.integer(port, "port"), raw.text(port, "protocol") or "TCP") for port in raw.items(service, "spec", "ports")
    }
