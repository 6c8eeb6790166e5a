"""What many pods share: marks of use, room by age and size, locks."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from fetch_runs import HUB, files_of, run, until
from modelfleet_worker.fetch.evict import Room, make_room
from modelfleet_worker.fetch.held import held
from modelfleet_worker.fetch.remote import FetchError
from modelfleet_worker.fetch.store import MARK_LIVES_S, Store, is_held, touch
from weight_servers import model, serving

HOUR = 3600.0


@pytest.fixture
def store(tmp_path: Path) -> Store:
    made = Store(tmp_path / "store")
    made.prepare()
    return made


def keep(store: Store, key: str, size: int, used_s_ago: float, pod: str = "gone") -> None:
    """A model of so many bytes that a pod used last so long ago."""
    folder = store.model(key)
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"x" * size)
    mark = store.mark(key, pod)
    touch(mark)
    then = time.time() - used_s_ago
    for path in (mark, folder):
        os.utime(path, (then, then))


def room(needed: int, **bounds: Any) -> Room:
    return Room("new", needed, 0, **({"size_bytes": 0, "max_age_s": 0.0} | bounds))


def kept(store: Store) -> set[str]:
    return {folder.name for folder in (store.root / "models").iterdir()}


def test_the_least_recently_used_goes_first_and_no_more_than_is_needed(store: Store) -> None:
    for key, hours in (("a", 3), ("b", 9), ("c", 6)):
        keep(store, key, 1000, hours * HOUR)
    assert make_room(store, room(1500, size_bytes=3600), time.time()) == ("b",) or kept(store) == {"a"}
    assert make_room(store, room(1500, size_bytes=3600), time.time()) == ()


def test_what_nobody_used_for_too_long_goes_even_if_there_is_room(store: Store) -> None:
    keep(store, "old", 10, 50 * HOUR)
    keep(store, "young", 10, 2 * HOUR)
    assert make_room(store, room(1, max_age_s=24 * HOUR), time.time()) == ("old",)
    assert kept(store) == {"young"}


def test_what_a_pod_uses_stays_although_it_is_old_and_there_is_no_room(store: Store) -> None:
    keep(store, "used", 1000, 50 * HOUR, pod="alive")
    with (store.mark("used", "alive")).open() as file:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_SH)
        with pytest.raises(FetchError, match="in use by other pods"):
            make_room(store, room(500, size_bytes=1200, max_age_s=HOUR), time.time())
    assert kept(store) == {"used"}


def test_a_container_that_is_started_again_keeps_its_weights_meanwhile(store: Store) -> None:
    keep(store, "a", 1000, MARK_LIVES_S - 60)
    with pytest.raises(FetchError):
        make_room(store, room(500, size_bytes=1200), time.time())
    assert make_room(store, room(500, size_bytes=1200), time.time() + 120) == ("a",)


def test_what_is_being_fetched_stays(store: Store) -> None:
    (store.partial("other") / "parts").mkdir(parents=True)
    (store.partial("other") / "parts" / "x").write_bytes(b"x" * 1000)
    with store.locked("other"), pytest.raises(FetchError):
        make_room(store, room(500, size_bytes=1200), time.time() + 9 * HOUR)
    assert make_room(store, room(500, size_bytes=1200), time.time() + 9 * HOUR) == ("other",)


def test_two_models_that_come_at_once_do_not_both_fit_alone(store: Store) -> None:
    (store.partial("other") / "parts").mkdir(parents=True)
    store.expect("other", 1000)
    with store.locked("other"), pytest.raises(FetchError, match="in use by other pods"):
        make_room(store, room(500, size_bytes=1200), time.time())
    assert make_room(store, room(500, size_bytes=1600), time.time()) == ()


def test_a_disk_without_room_is_told_with_its_numbers(store: Store) -> None:
    with pytest.raises(FetchError, match=r"The weights need 1e\+09 GB more, and their volume has .* GB free"):
        make_room(store, room(10**18), time.time())


def test_a_served_model_is_marked_while_it_is_served(tmp_path: Path) -> None:
    with serving(HUB.handler, HUB.shelf(model())) as address:
        order = HUB.order(address, tmp_path / "store")
        assert run(order) is None
    store, long_ago = Store(order.root), time.time() - 9 * HOUR
    mark = store.mark("k1", "pod-1")
    with held(order, "pod-1", order.root / "use"):
        until(lambda: is_held(mark))
        os.utime(mark, (long_ago, long_ago))
        assert store.in_use("k1", time.time()), "the lock alone counts"
    until(lambda: not store.in_use("k1", time.time()))


def test_marks_of_pods_that_are_gone_are_taken_away_but_the_newest(store: Store) -> None:
    keep(store, "a", 1, 9 * HOUR, pod="one")
    for pod, hours in (("two", 5), ("three", 7)):
        touch(store.mark("a", pod))
        os.utime(store.mark("a", pod), (time.time() - hours * HOUR,) * 2)
    store.forget_marks("a", time.time())
    assert [mark.name for mark in (store.root / "use" / "a").iterdir()] == ["two"]


@pytest.mark.parametrize(
    "harm",
    [
        pytest.param(lambda folder: (folder / "tokenizer.json").unlink(), id="a file is gone"),
        pytest.param(lambda folder: (folder / "tokenizer.json").write_text("cut"), id="a file is shorter"),
        pytest.param(lambda folder: (folder / ".modelfleet.json").write_text("{"), id="our note is damaged"),
    ],
)
def test_a_published_model_that_is_not_whole_comes_again(harm: Any, tmp_path: Path) -> None:
    with serving(HUB.handler, HUB.shelf(model())) as address:
        order = HUB.order(address, tmp_path / "store")
        assert run(order) is None
        harm(order.root / "models" / "k1")
        assert run(order) is None
    assert files_of(order.root / "models" / "k1") == model()


def test_what_was_half_taken_away_is_cleared_at_the_next_start(store: Store) -> None:
    (store.root / "trash" / "k9-1-2").mkdir()
    (store.root / "trash" / "k9-1-2" / "x").write_bytes(b"x")
    store.prepare()
    assert list((store.root / "trash").iterdir()) == []


def test_a_store_that_is_not_shared_has_no_marks(tmp_path: Path) -> None:
    with serving(HUB.handler, HUB.shelf(model())) as address:
        order = HUB.order(address, tmp_path / "store", shared=False)
        assert run(order) is None
    assert list((order.root / "use").iterdir()) == []
    assert json.loads((order.root / "models" / "k1" / ".modelfleet.json").read_text())["withoutChecksum"] == []


def test_what_is_no_folder_is_taken_away_like_one(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.prepare()
    (tmp_path / "models" / "junk").write_text("a file")
    store.discard(tmp_path / "models" / "junk")
    (tmp_path / "trash" / "left").write_text("of one who was killed")
    store.prepare()
    assert not list((tmp_path / "trash").iterdir())
