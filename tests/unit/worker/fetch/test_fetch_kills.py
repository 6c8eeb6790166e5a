"""kill -9 at any byte and before any file operation: the next start goes on, and the result is the same to the bit."""

import random
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import pytest

from fetch_runs import HUB, STORE, Dialect, Killed, errand, files_of, pods, run
from weight_servers import Fault, Shelf, model, serving

SEED = 20261130
FILES = model(3, 400_000)
SHARDS = [path for path in FILES if path.endswith(".safetensors")]
PATIENT = 30.0  # longer than any test: the process is killed in the silence


DIALECTS = [pytest.param(HUB, id="a hub"), pytest.param(STORE, id="a store", marks=pytest.mark.thorough)]


def part_name(path: str) -> str:
    """The name under which a file comes."""
    return sha256(path.encode()).hexdigest()[:32]


def lengths(store: Path) -> dict[str, int]:
    """Bytes on the disk by the part's name."""
    found = {}
    for part in (store / "partial" / "k1" / "parts").glob("*"):
        with suppress(FileNotFoundError):  # it has just been checked and moved
            found[part.name] = part.stat().st_size
    return found


def kill_at(fetch: Callable[[], Killed], shelf: Shelf, store: Path, shard: str, byte: int) -> None:
    """A fetch that is killed when so many bytes of `shard` are on the disk. The others come whole or not."""
    first, name = lengths(store).get(part_name(shard), 0), part_name(shard)
    shelf.faults[shard] = [Fault(after=byte - first, how="end", silent_s=PATIENT)]
    fetch().kill_when(lambda: not shelf.faults[shard] and lengths(store).get(name, 0) >= byte)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_killed_at_any_byte_the_next_start_goes_on_there(dialect: Dialect, tmp_path: Path, thorough: bool) -> None:
    draw, kills = random.Random(SEED), 0
    for number in range(50 if thorough else 2):
        store, shelf, shard = tmp_path / f"store-{number}", dialect.shelf(FILES), draw.choice(SHARDS)
        with serving(dialect.handler, shelf) as address:
            order = dialect.order(address, store)
            for byte in sorted(draw.sample(range(1, 400_000), 3)):
                kill_at(lambda order=order: Killed(errand(order)), shelf, store, shard, byte)
                kills += 1
            have, already = lengths(store), len(shelf.sent)
            whole = {path for path in FILES if (store / "partial" / "k1" / "files" / path).is_file()}
            assert run(order) is None
            for path, first, _ in shelf.sent[already:]:
                name = path.removeprefix(dialect.below)
                assert name not in whole, f"{name} was there and came again"
                there, size = have.get(part_name(name), 0), len(FILES[name])
                # Of a file that is there and was not checked, one byte comes: its answer has the checksum.
                expected = size - 1 if dialect is STORE and there == size else there
                assert first == expected, f"{name}: bytes that were there came again"
        assert files_of(store / "models" / "k1") == FILES, f"round {number} of seed {SEED}"
    print(
        f"\nweights: a {dialect.name}: {kills} kills at random bytes; each start went on there, the result is the same"
    )


def test_killed_before_any_file_operation_the_next_start_ends_well(tmp_path: Path, thorough: bool) -> None:
    every = 1 if thorough else 13
    operation, killed = 1, 0
    with serving(HUB.handler, HUB.shelf(model(2, 20_000))) as address:
        while True:
            store = tmp_path / f"store-{operation}"
            status = Killed(errand(HUB.order(address, store)), at_operation=operation).ends()
            if status == 0:
                break
            assert status == -9
            killed += 1
            assert run(HUB.order(address, store)) is None, f"after a kill before operation {operation}"
            assert files_of(store / "models" / "k1") == model(2, 20_000)
            operation += every
    print(f"\nweights: killed before {killed} file operations (every {every}.), each time the next start ended well")
    assert killed >= (30 if thorough else 2)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_pods_that_start_at_once_fetch_once(dialect: Dialect, tmp_path: Path) -> None:
    shelf = dialect.shelf(FILES)
    with serving(dialect.handler, shelf) as address:
        order = dialect.order(address, tmp_path / "store")
        assert [each.ends() for each in pods(order, 6)] == [0] * 6
    assert shelf.sent_bytes() == sum(map(len, FILES.values()))
    assert shelf.listings() == 1
    assert len(list((order.root / "use" / "k1").iterdir())) == 6


def test_when_the_one_that_fetches_is_killed_one_that_waits_goes_on(tmp_path: Path) -> None:
    shelf = HUB.shelf(FILES, faults={SHARDS[0]: [Fault(after=150_000, how="end", silent_s=PATIENT)]})
    store = tmp_path / "store"
    with serving(HUB.handler, shelf) as address:
        first = Killed(errand(HUB.order(address, store)))
        second = pods(HUB.order(address, store), 1)[0]
        first.kill_when(lambda: lengths(store).get(part_name(SHARDS[0]), 0) >= 150_000)
        assert second.ends() == 0
    assert files_of(store / "models" / "k1") == FILES
    assert [start for path, start, _ in shelf.sent if path == SHARDS[0]] == [0, 150_000]
