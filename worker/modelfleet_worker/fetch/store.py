"""A folder with fetched models that many pods share: locks, marks of use, publishing. Does I/O.

```
models/KEY/            a whole model; it appears by one rename and is never written again
partial/KEY/parts/     files on their way; their length is what has come
partial/KEY/expected   how many bytes it will be
partial/KEY/files/     files that came and were checked, under their names
locks/KEY              flock: exclusive while the model is fetched, looked at or taken away
use/KEY/POD            a pod uses the model: flock held, or written within MARK_LIVES_S
trash/                 what is being taken away
```
The kernel lets go of a lock when its owner dies, however it dies, so no lock is ever left behind. A mark also outlives
its owner for MARK_LIVES_S: an engine's container that died is started again by the kubelet up to five minutes later.
"""

import contextlib
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from modelfleet_worker.failure import FULL, Reason
from modelfleet_worker.fetch.remote import FetchError
from modelfleet_worker.json_fields import parsed

MARK_LIVES_S = 900.0
MANIFEST = ".modelfleet.json"


@dataclass(frozen=True)
class Store:
    """The folder."""

    root: Path

    def prepare(self) -> None:
        """Makes the folders. Raises FetchError where they cannot be written to."""
        try:
            for name in ("models", "partial", "locks", "use", "trash"):
                (self.root / name).mkdir(parents=True, exist_ok=True)
            for left in (self.root / "trash").iterdir():
                _remove(left)
        except OSError as error:
            raise FetchError(
                Reason.DISK_FULL if error.errno in FULL else Reason.FETCH_FAILED,
                f"The folder for fetched weights cannot be written to by user {os.getuid()}: {error.strerror}.",
                "Let user 65532 write to the claim, or to the nodes' folder in nodeCache of the AcceleratorClass.",
            ) from error

    def model(self, key: str) -> Path:
        """Where a whole model is."""
        return self.root / "models" / key

    def partial(self, key: str) -> Path:
        """Where a model is on its way."""
        return self.root / "partial" / key

    @contextmanager
    def locked(self, key: str, waits: "Waits | None" = None) -> Iterator[bool]:
        """The exclusive lock of a model. Without `waits` it gives False at once where another holds it."""
        with lockable(self.root / "locks" / key) as file:
            while not try_lock(file):
                if waits is None:
                    yield False
                    return
                waits.tell()
                time.sleep(waits.poll_s)
            yield True

    @contextmanager
    def read_locked(self, key: str) -> Iterator[bool]:
        """The lock of a model that others read too, so that nobody takes it away; False where it is being written."""
        with lockable(self.root / "locks" / key) as file:
            yield try_lock(file, fcntl.LOCK_SH)

    def expect(self, key: str, size: int) -> None:
        """Says how large a model on its way will be."""
        (self.partial(key) / "expected").write_text(str(size))

    def expected(self, key: str) -> int:
        """How large a model on its way will be; 0 where that is not known yet."""
        try:
            return int((self.partial(key) / "expected").read_text())
        except (OSError, ValueError):
            return 0

    def whole(self, key: str) -> dict[str, Any] | None:
        """The manifest of a published model whose files are all there; None if there is none."""
        folder = self.model(key)
        try:
            manifest: dict[str, Any] = parsed((folder / MANIFEST).read_text(), MANIFEST, ValueError)
            sizes = {str(each["path"]): int(each["size"]) for each in manifest["files"]}
            good = int(manifest["bytes"]) >= 0
            good = good and all((folder / path).stat().st_size == size for path, size in sizes.items())
        except (OSError, ValueError, KeyError, TypeError, OverflowError):
            return None
        return manifest if good else None

    def publish(self, key: str, manifest: dict[str, Any]) -> None:
        """Makes the checked files the model, at once. What was there and was not whole goes."""
        files = self.partial(key) / "files"
        (files / MANIFEST).write_text(json.dumps(manifest, indent=1))
        for folder, _, names in os.walk(files):
            sync(Path(folder) / MANIFEST if MANIFEST in names else Path(folder))
            sync(Path(folder))
        self.discard(self.model(key))
        files.rename(self.model(key))
        sync(self.root / "models")
        self.discard(self.partial(key))

    def discard(self, folder: Path) -> None:
        """Takes a folder away: at once for everybody who looks, then its bytes."""
        aside = self.root / "trash" / f"{folder.name}-{os.getpid()}-{time.monotonic_ns()}"
        try:
            folder.rename(aside)
        except FileNotFoundError:
            return
        _remove(aside)

    def mark(self, key: str, pod: str) -> Path:
        """Where a pod's mark is."""
        return self.root / "use" / key / pod

    def in_use(self, key: str, now: float) -> bool:
        """Whether a living pod has a mark on the model. `now` is the time of day: marks are files, and have its."""
        return any(now - _written(mark) < MARK_LIVES_S or is_held(mark) for mark in self._marks(key))

    def last_used(self, key: str) -> float:
        """When a pod used the model last, or when it came."""
        return max((_written(path) for path in (*self._marks(key), self.model(key), self.partial(key))), default=0.0)

    def forget_marks(self, key: str, now: float) -> None:
        """Takes away marks of pods that are gone, all but the newest, which says when the model was used last."""
        marks = sorted(self._marks(key), key=_written)
        for mark in marks[:-1]:
            if now - _written(mark) >= MARK_LIVES_S and not is_held(mark):
                mark.unlink(missing_ok=True)

    def _marks(self, key: str) -> list[Path]:
        folder = self.root / "use" / key
        return [mark for mark in folder.iterdir() if mark.is_file()] if folder.is_dir() else []


@dataclass(frozen=True)
class Waits:
    """How a lock is waited for, and what is done at each look."""

    tell: Any
    poll_s: float = 0.5


def lockable(path: Path) -> IO[bytes]:
    """The file, made where it is missing, open for reading and for writing: NFS locks it shared only for one who may
    read, and exclusively only for one who may write, and says EBADF to others (flock(2), NFS details)."""
    return path.open("a+b")


def try_lock(file: IO[Any], kind: int = fcntl.LOCK_EX) -> bool:
    """Whether the file's lock is ours now. Raises FetchError where the file system has no locks."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise FetchError(
            Reason.FETCH_FAILED,
            f"The volume for fetched weights has no file locks: {error.strerror}.",
            "Use a volume with flock, such as a local disk, NFS 4 or CephFS; without it two writers could meet.",
        ) from error
    return True


def is_held(mark: Path) -> bool:
    """Whether a process holds the mark's lock. That of a mark which is not ours to lock counts as held."""
    try:
        with mark.open("r+b") as file:
            return not try_lock(file)
    except FileNotFoundError:
        return False
    except PermissionError:  # another user's, who alone takes it away
        return True


def touch(path: Path) -> None:
    """Writes the present time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a"):
        os.utime(path)


def sync(path: Path) -> None:
    """Brings a file's or folder's content to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system that cannot sync a folder loses a rename in a power cut
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    """What cannot go now goes at the next start."""
    shutil.rmtree(path, ignore_errors=True)
    with contextlib.suppress(OSError):  # it was a folder, and is gone
        path.unlink(missing_ok=True)


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
