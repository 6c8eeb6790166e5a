"""Making room in a store: by age, then by size, never what a pod uses. Does I/O.

Counted are the bytes of whole models and of those on their way. What is taken away is locked first, so that nobody
takes it into use meanwhile.
"""

import logging
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from modelfleet_worker.failure import Reason
from modelfleet_worker.fetch.remote import FetchError
from modelfleet_worker.fetch.store import Store

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Room:
    """What is needed and what there may be. `needed_bytes` are those still to come for `key`; `kept_bytes` those of it
    that are there."""

    key: str
    needed_bytes: int
    kept_bytes: int
    size_bytes: int
    max_age_s: float


def make_room(store: Store, room: Room, now: float) -> tuple[str, ...]:
    """Takes away what is too old, then what was used longest ago, until there is room; gives the keys that went.
    Raises FetchError if there is none. `now` is the time of day."""
    gone: list[str] = []
    others = sorted(_keys(store) - {room.key}, key=store.last_used)
    for key in others:
        too_old = room.max_age_s and now - store.last_used(key) > room.max_age_s
        if (too_old or not _fits(store, room)) and _evict(store, key, now):
            gone.append(key)
    if not _fits(store, room):
        raise _no_room(store, room)
    return tuple(gone)


def _evict(store: Store, key: str, now: float) -> bool:
    """Whether the model went; a used or locked one stays."""
    with store.locked(key) as ours:
        if not ours or store.in_use(key, now):
            return False
        try:
            store.discard(store.model(key))
            store.discard(store.partial(key))
            store.discard(store.root / "use" / key)
        except PermissionError as error:  # another user's: the others may make room enough
            _log.warning("the model %s cannot be taken away: %s", key, error)
            return False
        return True


def _fits(store: Store, room: Room) -> bool:
    return _free_bytes(store.root) >= room.needed_bytes and (
        not room.size_bytes or _others_bytes(store, room) + room.needed_bytes + room.kept_bytes <= room.size_bytes
    )


def _keys(store: Store) -> set[str]:
    return {folder.name for kind in ("models", "partial") for folder in (store.root / kind).iterdir()}


def _used_bytes(store: Store) -> int:
    """Whole models, and models on their way as large as they will be: two fetches at once must not both fit alone."""
    coming = (max(folder_bytes(folder), store.expected(folder.name)) for folder in (store.root / "partial").iterdir())
    return folder_bytes(store.root / "models") + sum(coming)


def _others_bytes(store: Store, room: Room) -> int:
    own = store.partial(room.key)
    return _used_bytes(store) - (max(folder_bytes(own), store.expected(room.key)) if own.is_dir() else 0)


def _free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below a folder."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size
            except FileNotFoundError:
                continue
    return total


def _no_room(store: Store, room: Room) -> FetchError:
    whole = room.needed_bytes + room.kept_bytes
    used = _others_bytes(store, room)
    if room.size_bytes and used + whole > room.size_bytes:
        message = (
            f"The weights take {gigabytes(whole)}, and {gigabytes(used)} of the {gigabytes(room.size_bytes)} that this"
            " namespace may keep on a node are in use by other pods."
        )
        return FetchError(
            Reason.DISK_FULL,
            message,
            "Raise nodeCache.size of the AcceleratorClass, or end what uses the other models.",
        )
    message = (
        f"The weights need {gigabytes(room.needed_bytes)} more, and their volume has"
        f" {gigabytes(_free_bytes(store.root))} free."
    )
    return FetchError(Reason.DISK_FULL, message, "Give the volume more room.")


def gigabytes(size: int) -> str:
    """Bytes for a reader."""
    return f"{size / 1e9:.3g} GB" if size >= 1e8 else f"{size / 1e6:.3g} MB"
