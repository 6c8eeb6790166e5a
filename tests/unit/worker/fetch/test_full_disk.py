"""A volume that fills up while weights come, on a small file system of its own; needs root, as the cluster does."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fetch_runs import HUB, files_of, run
from weight_servers import Fault, model, serving

pytestmark = pytest.mark.thorough
SHARD = "model-00001-of-00002.safetensors"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system of 2 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_fills_meanwhile_is_told_and_the_fetch_goes_on_when_there_is_room(small: Path) -> None:
    shelf = HUB.shelf(model(2, 600_000), faults={SHARD: [Fault(after=200_000)]})
    filler = small / "filler"

    def fill(*_: Any) -> None:
        filler.write_bytes(b"x" * 1_000_000)

    shelf.on_fault = fill
    with serving(HUB.handler, shelf) as address:
        failure = run(HUB.order(address, small / "store"))
        assert failure is not None
        assert failure.reason == "DiskFull"
        have = {part.stat().st_size for part in (small / "store" / "partial" / "k1" / "parts").iterdir()}
        already = len(shelf.sent)
        filler.unlink()
        assert run(HUB.order(address, small / "store")) is None
    assert files_of(small / "store" / "models" / "k1") == model(2, 600_000)
    assert {first for _, first, _ in shelf.sent[already:] if first} <= have, "what was there came again"


def test_a_disk_that_is_too_small_is_told_before_a_byte_comes(small: Path) -> None:
    shelf = HUB.shelf(model(2, 1_500_000))
    with serving(HUB.handler, shelf) as address:
        failure = run(HUB.order(address, small / "store"))
    assert failure is not None
    assert failure.reason == "DiskFull"
    assert failure.message.startswith("The weights need 3 MB more, and their volume has 2")
    assert shelf.sent_bytes() == 0
