"""What a server has: files with sizes and checksums, at one revision; and what can go wrong with it. Pure."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from modelfleet_worker.failure import Failure, Reason

MOST_FILES = 10_000


class FetchError(Exception):
    """The weights cannot be had; waiting does not mend it."""

    def __init__(self, reason: Reason, message: str, remedy: str) -> None:
        super().__init__(message)
        self.reason, self.message, self.remedy = reason, message, remedy

    def failure(self) -> Failure:
        """What stands in the termination message."""
        return Failure(reason=self.reason, message=self.message, remedy=self.remedy, phase="fetch")


class TransientError(Exception):
    """The server failed in a way that may pass: a reset, a stall, 429, 5xx. `retry_after_s` is its own wish."""

    def __init__(self, message: str, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Algorithm(StrEnum):
    """How a checksum is computed. GIT_BLOB is git's SHA-1 over a header with the size and the content."""

    SHA256 = "sha256"
    MD5 = "md5"
    GIT_BLOB = "git-blob"


@dataclass(frozen=True)
class Checksum:
    """A checksum that the server states."""

    algorithm: Algorithm
    value: str

    def start(self, size: int) -> Any:
        """A hash object to be fed with a content of `size` bytes."""
        if self.algorithm is Algorithm.SHA256:
            return hashlib.sha256()
        if self.algorithm is Algorithm.MD5:
            return hashlib.md5(usedforsecurity=False)
        return hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)


@dataclass(frozen=True)
class RemoteFile:
    """One file. `path` is relative with '/'; it comes from the server, so it is checked before it is used. `token` is
    what the source needs to find it again (an ETag, a digest)."""

    path: str
    size: int
    checksum: Checksum | None = None
    token: str = ""


@dataclass(frozen=True)
class Listing:
    """All files at one revision: a commit, a digest, or the digest of a listing without versions."""

    revision: str
    files: tuple[RemoteFile, ...]


@dataclass(frozen=True)
class Body:
    """An answer with content: it begins at byte `start` of the file, which is 0 where a server ignores ranges.
    `headers` have lower-case names."""

    start: int
    headers: Mapping[str, str]
    chunks: Iterator[bytes]


class Source(Protocol):
    """A place that weights are fetched from."""

    def listing(self) -> Listing:
        """All files. Raises FetchError or TransientError."""

    def read(self, file: RemoteFile, offset: int, length: int | None = None) -> AbstractContextManager[Body]:
        """The content from `offset` on, at most `length` bytes. Raises FetchError or TransientError, also while
        chunks are read."""

    def checksum(self, file: RemoteFile, headers: Mapping[str, str]) -> Checksum | None:
        """The checksum of a file, where it is known only with the answer's headers."""


Pause = Callable[[float], None]


def listing_digest(files: tuple[RemoteFile, ...]) -> str:
    """The revision of a place that has none: every name, size and version mark counts."""
    text = "\n".join(f"{file.path}\t{file.size}\t{file.token}" for file in sorted(files, key=lambda each: each.path))
    return "listing:" + hashlib.sha256(text.encode()).hexdigest()
