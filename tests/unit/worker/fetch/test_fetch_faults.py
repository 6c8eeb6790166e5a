"""Servers that reset, stall, cut off, lie or refuse in the middle; volumes that are full."""

from pathlib import Path
from typing import Any

import pytest

from fetch_runs import HASTY, HUB, REGISTRY, STORE, Dialect, files_of, run
from modelfleet_worker.failure import Failure
from modelfleet_worker.fetch.transfer import Patience
from weight_servers import Fault, Shelf, model, serving

SHARD = "model-00001-of-00002.safetensors"
SIZE = len(model()[SHARD])
ALL = [pytest.param(dialect, id=f"a {dialect.name}") for dialect in (HUB, STORE, REGISTRY)]


def fetched(dialect: Dialect, shelf: Shelf, root: Path, patience: Patience = HASTY, **order: Any) -> Failure | None:
    with serving(dialect.handler, shelf) as address:
        return run(dialect.order(address, root, **order), patience=patience)


@pytest.mark.parametrize("dialect", ALL)
@pytest.mark.parametrize(
    "faults",
    [
        pytest.param([Fault(after=1)], id="a reset after one byte"),
        pytest.param([Fault(after=100_000), Fault(after=70_000), Fault(after=90_000)], id="resets, each a bit further"),
        pytest.param([Fault(after=100_000, how="end")], id="an answer that is cut off"),
        pytest.param([Fault(after=100_000, silent_s=1.5)], id="silence in the middle"),
        pytest.param([Fault(after=0, silent_s=1.5)], id="silence from the beginning", marks=pytest.mark.thorough),
        pytest.param([Fault(status=503), Fault(status=500)], id="errors of the server"),
        pytest.param([Fault(status=520), Fault(status=507)], id="errors that a server numbers for itself"),
        pytest.param([Fault(status=429, headers={"Retry-After": "0.1"})], id="too many requests"),
    ],
)
def test_what_passes_is_waited_for_and_gone_on_with(dialect: Dialect, faults: list[Fault], tmp_path: Path) -> None:
    shelf = dialect.shelf(model(), faults={SHARD: list(faults)})
    assert fetched(dialect, shelf, tmp_path / "store") is None
    assert files_of(tmp_path / "store" / "models" / "k1") == model()
    starts = [first for path, first, _ in shelf.sent if path.endswith(SHARD)]
    assert starts == sorted(starts), "it did not go on where it was"


@pytest.mark.parametrize("dialect", ALL)
def test_bytes_that_came_before_a_reset_do_not_come_again(dialect: Dialect, tmp_path: Path) -> None:
    shelf = dialect.shelf(model(), faults={SHARD: [Fault(after=200_000, how="end")]})
    assert fetched(dialect, shelf, tmp_path / "store") is None
    again = [first for path, first, _ in shelf.sent if path.endswith(SHARD)]
    assert again == [0, 200_000]
    assert shelf.sent_bytes() == sum(map(len, model().values()))


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        pytest.param(Fault(after=0), "3 attempts brought nothing more", id="resets"),
        pytest.param(Fault(after=0, silent_s=1.2), "the server sent nothing for too long", id="silence"),
        pytest.param(Fault(status=503), "HTTP 503", id="errors"),
        pytest.param(Fault(after=10, how="end"), "3 attempts brought nothing more", id="crumbs"),
    ],
)
def test_what_does_not_pass_is_given_up_with_a_sentence(fault: Fault, said: str, tmp_path: Path) -> None:
    shelf = HUB.shelf(model(), faults={SHARD: [fault] * 20})
    failure = fetched(HUB, shelf, tmp_path / "store")
    assert failure is not None
    assert (failure.reason, failure.phase) == ("FetchFailed", "fetch")
    assert SHARD in failure.message
    assert said in failure.message
    assert not (tmp_path / "store" / "models" / "k1").exists()


def test_a_drip_is_a_stall(tmp_path: Path) -> None:
    shelf = HUB.shelf(model(1, 400_000), bytes_per_s=20_000)
    patience = Patience(read_s=5, attempts=2, backoff_s=0.01, floor_bytes=60_000, window_s=0.5)
    failure = fetched(HUB, shelf, tmp_path / "store", patience)
    assert failure is not None
    assert "less than 60000 bytes in" in failure.message


@pytest.mark.parametrize(
    ("status", "reason"), [(401, "CredentialsRefused"), (403, "CredentialsRefused"), (404, "ModelNotFound")]
)
def test_a_refusal_in_the_middle_is_final(status: int, reason: str, tmp_path: Path) -> None:
    shelf = HUB.shelf(model(), faults={SHARD: [Fault(status=status)] * 9})
    failure = fetched(HUB, shelf, tmp_path / "store")
    assert failure is not None
    assert failure.reason == reason
    assert len(shelf.faults[SHARD]) == 8, "it was asked again"


def test_temporary_credentials_that_are_over_are_told_and_the_next_ones_go_on(tmp_path: Path) -> None:
    expired = Fault(status=400, body=b"<?xml version='1.0'?><Error><Code>ExpiredToken</Code></Error>")
    shelf = STORE.shelf(model(), faults={SHARD: [Fault(after=200_000, how="end"), expired]})
    failure = fetched(STORE, shelf, tmp_path / "store")
    assert failure is not None
    assert (failure.reason, "are over (HTTP 400, ExpiredToken)" in failure.message) == ("CredentialsRefused", True)
    assert fetched(STORE, shelf, tmp_path / "store") is None
    assert [first for path, first, _ in shelf.sent if path.endswith(SHARD)] == [0, 200_000]


def test_a_hub_is_asked_anew_where_a_file_is_since_a_signed_address_may_be_over(tmp_path: Path) -> None:
    shelf = HUB.shelf(model())
    other = HUB.shelf(model(), faults={SHARD: [Fault(after=200_000)]})
    with serving(HUB.handler, other) as elsewhere, serving(HUB.handler, shelf, sends_on=elsewhere) as address:
        assert run(HUB.order(address, tmp_path / "store")) is None
    assert len([path for path in shelf.asked if path.endswith(SHARD)]) == 2


@pytest.mark.parametrize("dialect", ALL)
def test_a_wrong_checksum_is_tried_twice_and_never_published(dialect: Dialect, tmp_path: Path) -> None:
    shelf = dialect.shelf(model(), wrong_checksums=frozenset({SHARD}))
    failure = fetched(dialect, shelf, tmp_path / "store")
    assert failure is not None
    assert (failure.reason, "is not what its server says" in failure.message) == ("WeightsDamaged", True)
    assert len([path for path, _, _ in shelf.sent if path.endswith(SHARD)]) == 2
    assert not (tmp_path / "store" / "models" / "k1").exists()


def test_holes_that_a_power_cut_left_are_found_and_mended(tmp_path: Path) -> None:
    shelf = HUB.shelf(model(), faults={SHARD: [Fault(after=200_000), Fault(status=403)]})
    assert fetched(HUB, shelf, tmp_path / "store") is not None
    for part in (tmp_path / "store" / "partial" / "k1" / "parts").iterdir():
        with part.open("r+b") as file:
            file.seek(4096)
            file.write(b"\0" * 4096)
    shelf.faults.clear()
    assert fetched(HUB, shelf, tmp_path / "store") is None
    assert files_of(tmp_path / "store" / "models" / "k1") == model()


def test_a_server_without_ranges_costs_bytes_and_nothing_else(tmp_path: Path) -> None:
    shelf = HUB.shelf(model(), ranges=False, faults={SHARD: [Fault(after=200_000)]})
    assert fetched(HUB, shelf, tmp_path / "store") is None
    assert files_of(tmp_path / "store" / "models" / "k1") == model()


def test_an_etag_that_is_no_checksum_is_not_taken_for_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shelf = STORE.shelf(model(), encrypted=True)
    assert fetched(STORE, shelf, tmp_path / "store") is None
    assert "the server states no checksum for 4 files; size and headers were checked" in caplog.text


def test_weights_that_are_no_safetensors_are_found_without_a_checksum(tmp_path: Path) -> None:
    files = model() | {SHARD: b"<html>please sign in</html>"}
    failure = fetched(STORE, STORE.shelf(files, encrypted=True), tmp_path / "store")
    assert failure is not None
    assert (failure.reason, "it is no safetensors file" in failure.message) == ("WeightsDamaged", True)


def test_an_object_that_is_written_anew_meanwhile_is_not_mixed(tmp_path: Path) -> None:
    shelf = STORE.shelf(model(), faults={SHARD: [Fault(after=200_000)]})
    body = shelf.files[f"llama/{SHARD}"]

    def swap(*_: Any) -> None:
        shelf.files[f"llama/{SHARD}"] = body[:-1] + b"x"

    shelf.on_fault = swap
    failure = fetched(STORE, shelf, tmp_path / "store")
    assert failure is not None
    assert failure.reason == "WeightsChanged"


def test_a_namespace_s_bound_is_told_with_its_numbers(tmp_path: Path) -> None:
    failure = fetched(HUB, HUB.shelf(model()), tmp_path / "store", size_bytes=500_000)
    assert failure is not None
    assert failure.reason == "DiskFull"
    assert failure.message.startswith("The weights take 0.6 MB, and 0 MB of the 0.5 MB")


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file")
    failure = fetched(HUB, HUB.shelf(model()), tmp_path / "store")
    assert failure is not None
    assert failure.reason == "FetchFailed"
    assert "Let user 65532 write" in failure.remedy


def test_a_link_in_the_place_of_a_part_is_not_followed(tmp_path: Path) -> None:
    shelf = HUB.shelf(model(), faults={SHARD: [Fault(after=200_000), Fault(status=403)]})
    assert fetched(HUB, shelf, tmp_path / "store") is not None
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    for part in (tmp_path / "store" / "partial" / "k1" / "parts").iterdir():
        part.unlink()
        part.symlink_to(victim)
    shelf.faults.clear()
    assert fetched(HUB, shelf, tmp_path / "store") is not None
    assert victim.read_bytes() == b"mine"
