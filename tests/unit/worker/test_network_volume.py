"""Shared folders on a network: locks by the rule of NFS, calls that never come back, and calls that fail."""

import errno
import fcntl
import os
import time
from dataclasses import replace
from pathlib import Path
from threading import Event, current_thread, main_thread
from typing import Any

import pytest
from test_compiled import KEY, compiled, shelf

from fetch_runs import HUB, files_of, run, until
from modelfleet_worker.compiled_store import Found
from modelfleet_worker.fetch.evict import Room, make_room
from modelfleet_worker.fetch.held import held
from modelfleet_worker.fetch.order import Order
from modelfleet_worker.fetch.store import Store, is_held, touch
from weight_servers import model, serving

HOUR = 3600.0
WAITS_S = 20.0


@pytest.fixture
def nfs(monkeypatch: pytest.MonkeyPatch) -> None:
    """flock as Linux's NFS 4 client does it: a shared lock for a file that is open for reading, an exclusive one for a
    file that is open for writing, EBADF for another (fs/nfs/nfs4proc.c, nfs4_proc_lock; flock(2), NFS details)."""
    local = fcntl.flock

    def flock(file: Any, operation: int) -> None:
        mode = fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE
        unreadable = operation & fcntl.LOCK_SH and mode == os.O_WRONLY
        if unreadable or (operation & fcntl.LOCK_EX and mode == os.O_RDONLY):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        local(file, operation)

    monkeypatch.setattr(fcntl, "flock", flock)


@pytest.fixture
def order(tmp_path: Path) -> Order:
    return HUB.order("nobody.test", tmp_path / "store")


@pytest.fixture
def store(order: Order) -> Store:
    made = Store(order.root)
    made.prepare()
    return made


def old(mark: Path) -> Path:
    """A mark that nobody renewed for an hour."""
    touch(mark)
    os.utime(mark, (time.time() - HOUR,) * 2)
    return mark


@pytest.mark.usefixtures("nfs")
def test_a_pod_starts_beside_the_old_mark_of_one_that_is_gone(tmp_path: Path) -> None:
    with serving(HUB.handler, HUB.shelf(model())) as address:
        order = HUB.order(address, tmp_path / "store")
        assert run(order, pod="pod-1") is None
        old(Store(order.root).mark("k1", "pod-1"))
        assert run(order, pod="pod-2") is None
        assert run(replace(order, key="k2"), pod="pod-2") is None
    assert files_of(order.root / "models" / "k2") == model()
    assert [mark.name for mark in (order.root / "use" / "k1").iterdir()] == ["pod-2"]


@pytest.mark.usefixtures("nfs")
def test_what_nobody_uses_makes_room_and_what_a_worker_holds_does_not(order: Order, store: Store) -> None:
    for key in ("k1", "k2"):
        store.model(key).mkdir()
        (store.model(key) / "model.safetensors").write_bytes(b"x" * 1000)
        old(store.mark(key, "pod-1"))
    with held(order, "pod-1", store.root / "use"):
        until(lambda: is_held(store.mark("k1", "pod-1")))
        old(store.mark("k1", "pod-1"))
        assert make_room(store, Room("new", 1000, 0, 2000, 0.0), time.time()) == ("k2",)


@pytest.mark.usefixtures("nfs")
def test_compiled_code_is_kept_and_taken(tmp_path: Path) -> None:
    assert shelf(tmp_path / "kept").put(compiled(tmp_path / "first"))
    old(Store(tmp_path / "kept").mark(KEY, "pod-0"))
    assert shelf(tmp_path / "kept", pod="pod-1").take(tmp_path / "second") is Found.TAKEN


def test_a_mark_of_another_user_counts_as_held(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(path: Path, *_: Any, **__: Any) -> Any:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    mark = old(store.mark("k1", "pod-1"))
    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", refuses)
        assert store.in_use("k1", time.time())
        store.forget_marks("k1", time.time())
    assert mark.exists()


CALLS = [
    pytest.param(os, "mkdir", id="make a folder"),
    pytest.param(Path, "open", id="open a file"),
    pytest.param(fcntl, "flock", id="lock it"),
    pytest.param(os, "utime", id="write the time to it"),
]


@pytest.mark.parametrize(("where", "call"), CALLS)
def test_serving_waits_for_no_volume_that_was_asked_to(
    where: Any, call: str, order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answers = Event(), Event()

    def hangs(*_: Any, **__: Any) -> Any:
        assert current_thread() is not main_thread(), "the thread that serves asks the volume"
        asked.set()
        answers.wait(WAITS_S)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(where, call, hangs)
        with held(order, "pod-1", order.root / "use"):
            assert asked.wait(WAITS_S)
    answers.set()


@pytest.mark.parametrize(("where", "call"), CALLS)
def test_a_mark_that_cannot_be_taken_at_first_is_taken_later(
    where: Any, call: str, order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, failed = getattr(where, call), Event()

    def fails_at_first(*arguments: Any, **more: Any) -> Any:
        if failed.is_set():
            return real(*arguments, **more)
        failed.set()
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    mark = Store(order.root).mark("k1", "pod-1")
    monkeypatch.setattr(where, call, fails_at_first)
    with held(order, "pod-1", order.root / "use", every_s=0.01):
        until(lambda: failed.is_set() and is_held(mark))


def test_a_volume_without_locks_has_the_time_renewed(order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: Any) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    mark = Store(order.root).mark("k1", "pod-1")
    with held(order, "pod-1", order.root / "use", every_s=0.01):
        until(mark.exists)
        old(mark)
        until(lambda: time.time() - mark.stat().st_mtime < HOUR / 2)


def test_a_mark_that_went_meanwhile_comes_back(order: Order, store: Store) -> None:
    with held(order, "pod-1", store.root / "use", every_s=0.01):
        until(lambda: is_held(store.mark("k1", "pod-1")))
        store.discard(store.root / "use" / "k1")
        until(lambda: is_held(store.mark("k1", "pod-1")))


def test_what_keeps_a_mark_from_being_taken_is_said_once(order: Order, caplog: pytest.LogCaptureFixture) -> None:
    order.root.mkdir(parents=True)
    (order.root / "use").write_text("a file where a folder goes")
    with held(order, "pod-1", order.root / "use", every_s=0.001):
        until(lambda: "marked as used, which is tried again: [Errno 20] Not a directory" in caplog.text)
        time.sleep(0.05)
    assert caplog.text.count("[Errno 20] Not a directory") == 1
