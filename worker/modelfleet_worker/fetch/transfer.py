"""One file from a source to the disk: goes on where it was, is checked, and is retried with a bound. Does I/O."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any, TypeVar

from modelfleet_worker.failure import FULL, Reason
from modelfleet_worker.fetch.remote import Checksum, FetchError, RemoteFile, Source, TransientError
from modelfleet_worker.fetch.store import sync
from modelfleet_worker.fetch.wanted import SAFETENSORS
from modelfleet_worker.safetensors import read_header, wrong_size

_BLOCK_BYTES = 1 << 20
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Patience:
    """How long a server is waited for. It is given up after `attempts` failures in a row without `floor_bytes` of
    progress; less than that in `window_s` is a stall too. Waits between attempts double from `backoff_s`. The whole
    answer to a short question may take `answer_s`. After `silent_s` in which no byte came or was checked, here or in
    the pod that is waited for, the whole fetch is given up."""

    read_s: float = 30.0
    attempts: int = 6
    backoff_s: float = 1.0
    floor_bytes: int = 1 << 20
    window_s: float = 60.0
    answer_s: float = 120.0
    silent_s: float = 1800.0

    def wait_s(self, asked_s: float, failures: int) -> float:
        """Seconds to wait after so many failures (from 0 on); longer where the server asks for it."""
        return max(asked_s, self.backoff_s * 2.0**failures)

    def asked(self, question: Callable[[], Answer], failed: str) -> Answer:
        """The answer to a short question, which is asked `attempts` times. Raises FetchError: `failed`, and why."""
        for attempt in range(self.attempts):
            try:
                return self._answer(question)
            except TransientError as error:
                last = error
                if attempt + 1 < self.attempts:
                    time.sleep(self.wait_s(error.retry_after_s, attempt))
        raise FetchError(
            Reason.FETCH_FAILED,
            f"{failed}: {last}; {self.attempts} attempts were made.",
            "Look at the server and at the way to it. It is tried again by itself.",
        )

    def _answer(self, question: Callable[[], Answer]) -> Answer:
        """The answer, if it is whole in time: a library that reads it may be fed byte by byte for ever."""
        outcome = _Outcome()

        def run() -> None:
            try:
                outcome.value = question()
            except BaseException as error:
                outcome.error = error
            outcome.done = True

        thread = Thread(target=run, daemon=True, name="question")
        thread.start()
        thread.join(self.answer_s)
        if not outcome.done:
            raise TransientError(f"no whole answer came within {self.answer_s:g} s")
        if outcome.error is not None:
            raise outcome.error
        answer: Answer = outcome.value
        return answer


@dataclass
class _Outcome:
    value: Any = None
    error: BaseException | None = None
    done: bool = False


@dataclass(frozen=True)
class Job:
    """A file and where it goes: `part` while it comes, `target` when it was checked. `moved` hears of bytes that came
    (or, below zero, that have to come again), `checked` of those that were read again; `unchecked` of a file without a
    checksum."""

    source: Source
    file: RemoteFile
    part: Path
    target: Path
    patience: Patience
    moved: Callable[[int], None]
    checked: Callable[[int], None]
    unchecked: Callable[[str], None]
    stop: Event


class StoppedError(Exception):
    """Another file failed, so this one is not gone on with."""


def fetch_file(job: Job) -> None:
    """Returns when `target` is there and is what the server has. Raises FetchError."""
    if job.target.is_file() and job.target.stat().st_size == job.file.size:
        return
    for last in (False, True):
        checksum = _come(job)
        wrong = _fault(job, checksum)
        if wrong is None:
            job.target.parent.mkdir(parents=True, exist_ok=True)
            sync(job.part)
            job.part.rename(job.target)
            return
        # Once more from the beginning: a power cut may have left holes in what came before.
        job.moved(-job.part.stat().st_size)
        job.part.unlink()
        if last:
            raise FetchError(
                Reason.WEIGHTS_DAMAGED,
                f"{job.file.path} came twice and is not what its server says: {wrong}.",
                "Upload the file again, or look at what stands between the server and this node.",
            )


def _come(job: Job) -> Checksum | None:
    """Brings the part to its full length; gives the checksum that it should have."""
    failures, mark = 0, _length(job.part)
    while True:
        try:
            found = _attempt(job)
            return job.file.checksum or found
        except TransientError as error:
            if job.stop.is_set():
                raise StoppedError from error
            here = _length(job.part)
            failures, mark = (1, here) if here - mark >= job.patience.floor_bytes else (failures + 1, mark)
            if failures >= job.patience.attempts:
                raise _given_up(job, error, here) from error
            job.stop.wait(job.patience.wait_s(error.retry_after_s, failures - 1))


def _attempt(job: Job) -> Checksum | None:
    """Writes what comes behind what is there. Raises TransientError when it ends too early."""
    have = _length(job.part)
    if have > job.file.size:
        job.moved(-have)
        job.part.unlink()
        have = 0
    if have == job.file.size and (job.file.checksum is not None or job.file.size == 0):
        _open(job.part).close()
        return None
    # A whole part of a file whose checksum only an answer tells: its last byte is asked for again.
    again = have == job.file.size
    with job.source.read(job.file, have - 1 if again else have) as body:
        checksum = job.source.checksum(job.file, body.headers)
        if again:
            return checksum
        if body.start == 0 and have:
            job.moved(-have)  # the server gives no ranges
        with _open(job.part) as out:
            out.truncate(body.start)
            out.seek(body.start)
            _write(job, body.chunks, out, body.start)
    return checksum


def _write(job: Job, chunks: Any, out: Any, position: int) -> None:
    since, mark = time.monotonic(), position
    for chunk in chunks:
        if job.stop.is_set():
            raise StoppedError
        if position + len(chunk) > job.file.size:
            raise TransientError(f"{job.file.path} is longer than the {job.file.size} bytes that were announced")
        _put(out, chunk)
        position += len(chunk)
        job.moved(len(chunk))
        now = time.monotonic()
        if position - mark >= job.patience.floor_bytes:
            since, mark = now, position
        elif now - since > job.patience.window_s:
            raise TransientError(f"{job.file.path}: less than {job.patience.floor_bytes} bytes in {now - since:.0f} s")
    if position < job.file.size:
        raise TransientError(f"{job.file.path} ended after {position} of {job.file.size} bytes")


def _put(out: Any, chunk: bytes) -> None:
    rest = memoryview(chunk)
    try:
        while rest:  # a disk that is nearly full takes a part
            rest = rest[out.write(rest) :]
    except OSError as error:
        raise unwritable(error) from error


def _fault(job: Job, checksum: Checksum | None) -> str | None:
    """What is wrong with the whole part; None if nothing is."""
    if checksum is None:
        job.unchecked(job.file.path)
    else:
        digest = checksum.start(job.file.size)
        with job.part.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
                job.checked(len(block))
        if digest.hexdigest() != checksum.value:
            return f"its {checksum.algorithm} is {digest.hexdigest()}, not {checksum.value}"
    return _tensors_fault(job) if job.file.path.endswith(SAFETENSORS) else None


def _tensors_fault(job: Job) -> str | None:
    """A safetensors file is a length, a header and the tensors that it lists, to the last byte."""
    try:
        return wrong_size(job.part, read_header(job.part)).replace(job.part.name, "it") or None
    except ValueError as error:
        return str(error).replace(job.part.name, "it")


def _open(part: Path) -> Any:
    part.parent.mkdir(parents=True, exist_ok=True)
    try:  # no link that somebody else put there is followed
        return os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644), "r+b", buffering=0)
    except OSError as error:
        raise unwritable(error) from error


def _length(part: Path) -> int:
    try:
        return part.stat(follow_symlinks=False).st_size
    except FileNotFoundError:
        return 0


def _given_up(job: Job, error: TransientError, here: int) -> FetchError:
    return FetchError(
        Reason.FETCH_FAILED,
        f"{job.file.path} did not come: {error}; {job.patience.attempts} attempts brought nothing more, at {here} of"
        f" {job.file.size} bytes.",
        "Look at the server and at the way to it. It is tried again by itself, and goes on where it was.",
    )


def unwritable(error: OSError) -> FetchError:
    """What the volume for fetched weights said."""
    if error.errno in FULL:
        return FetchError(
            Reason.DISK_FULL, "The volume for fetched weights is full.", "Give it more room, or free some of it."
        )
    return FetchError(
        Reason.FETCH_FAILED,
        f"The volume for fetched weights cannot be written to: {error.strerror}.",
        "Look at the volume and the node's log.",
    )
