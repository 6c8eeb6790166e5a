"""Takes compiled code out of the folder that pods share, and puts it there. Does I/O, and blocks.

The engine never works in the shared folder: it compiles in its own, as without one. Code is copied in before it starts,
file by file against a digest, and copied out once it serves; a whole entry appears by one rename. So a writer that is
killed leaves nothing that a reader takes, two writers give one entry, and an entry is never written again.
"""

import logging
import os
import shutil
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Any

from modelfleet_worker.compiled import FOLDERS
from modelfleet_worker.fetch.evict import Room, folder_bytes, make_room
from modelfleet_worker.fetch.store import Store, touch
from modelfleet_worker.plan import Compiled

_MOST_FILES = 100_000
_CHUNK_BYTES = 1 << 20
_log = logging.getLogger(__name__)


class Found(StrEnum):
    """What a start found: nothing, code that it took, or code that was damaged and has been thrown away."""

    NOTHING = "Nothing"
    TAKEN = "Taken"
    DAMAGED = "Damaged"


class _DamagedError(Exception):
    """An entry is not what was put there; the text says what is wrong."""


@dataclass(frozen=True)
class Shelf:
    """The entry `key` of the shared folder, for the pod of this name."""

    compiled: Compiled
    key: str
    pod: str

    @property
    def _store(self) -> Store:
        return Store(self.compiled.root)

    def take(self, into: Path) -> Found:
        """Copies the entry's files below `into`, which is there, and complete, only if the answer is TAKEN. Raises
        OSError and FetchError for a volume that cannot be used."""
        store = self._store
        store.prepare()
        shutil.rmtree(into, ignore_errors=True)
        with store.read_locked(self.key) as ours:
            if not ours or not store.model(self.key).is_dir():
                return Found.NOTHING
            try:
                self._copy_out(store.whole(self.key), into)
            except _DamagedError as error:
                why = str(error)
            else:
                touch(store.mark(self.key, self.pod))
                store.forget_marks(self.key, time.time())
                return Found.TAKEN
        _log.warning("the compiled code that was kept is damaged, so it is thrown away: %s", why)
        shutil.rmtree(into, ignore_errors=True)
        self.throw_away()
        return Found.DAMAGED

    def put(self, scratch: Path) -> int:
        """Keeps what the engine compiled below `scratch`, where nobody has kept it before, and gives its bytes; 0 where
        there is nothing to keep. Raises OSError and FetchError where it cannot be kept."""
        store = self._store
        store.prepare()
        with store.locked(self.key) as ours:
            if not ours or store.whole(self.key) is not None:
                return 0
            store.discard(store.partial(self.key))  # of one who was killed
            size = sum(folder_bytes(scratch / name) for name in FOLDERS)
            if not size:
                return 0
            with store.locked("evict") as alone:
                if not alone:
                    return 0  # another makes room; the next start keeps it
                self._make_room(store, size)
            files = store.partial(self.key) / "files"
            try:
                kept = list(_copied(scratch, files))
            except OSError:
                store.discard(store.partial(self.key))
                raise
            total = sum(int(each["size"]) for each in kept)
            store.publish(self.key, {"bytes": total, "planKey": self.compiled.key, "files": kept})
            touch(store.mark(self.key, self.pod))
            return total

    def throw_away(self) -> None:
        """Takes the entry away, unless somebody reads or writes it."""
        store = self._store
        with store.locked(self.key) as ours:
            if ours:
                store.discard(store.model(self.key))

    def _make_room(self, store: Store, size: int) -> None:
        bounds = self.compiled
        for key in make_room(store, Room(self.key, size, 0, bounds.size_bytes, bounds.max_age_s), time.time()):
            _log.info("the compiled code %s went, to make room or because of its age", key)

    def _copy_out(self, manifest: dict[str, Any] | None, into: Path) -> None:
        if manifest is None:
            raise _DamagedError("its list of files cannot be read, or does not fit them")
        files = manifest["files"]
        if len(files) > _MOST_FILES:
            raise _DamagedError(f"it lists more than {_MOST_FILES} files")
        for each in files:
            name = str(each["path"])
            if not any(name.startswith(f"{folder}/") for folder in FOLDERS) or ".." in name.split("/"):
                raise _DamagedError(f"it lists {name[:200]!r}, which is no file of an engine's caches")
            kept = self._store.model(self.key) / name
            if not stat.S_ISREG(os.lstat(kept).st_mode):
                raise _DamagedError(f"{name} is no plain file")
            if _copy(kept, into / name) != each.get("sha256"):
                raise _DamagedError(f"{name} is not what was kept")


def _copied(scratch: Path, files: Path) -> Iterator[dict[str, Any]]:
    """Copies the folders that are kept, and tells of each file. What vanishes meanwhile was of no use any more."""
    for path in _regular_files(scratch):
        name = path.relative_to(scratch).as_posix()
        target = files / name
        try:
            digest = _copy(path, target)
        except FileNotFoundError:
            continue
        yield {"path": name, "size": target.stat().st_size, "sha256": digest}


def _regular_files(scratch: Path) -> Iterator[Path]:
    for folder in FOLDERS:
        for parent, _, names in os.walk(scratch / folder):
            for name in sorted(names):
                path = Path(parent, name)
                if stat.S_ISREG(os.lstat(path).st_mode) and not name.endswith((".lock", ".tmp")):
                    yield path


def _copy(source: Path, target: Path) -> str:
    """Copies one file, which is no link, and gives the SHA-256 of what was copied."""
    target.parent.mkdir(parents=True, exist_ok=True)
    digest = sha256()
    descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as reader, target.open("wb") as writer:
        while chunk := reader.read(_CHUNK_BYTES):
            digest.update(chunk)
            writer.write(chunk)
        os.fchmod(writer.fileno(), stat.S_IMODE(os.fstat(descriptor).st_mode) | stat.S_IRUSR | stat.S_IWUSR)
    return digest.hexdigest()
