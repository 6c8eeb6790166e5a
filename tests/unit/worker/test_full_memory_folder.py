"""The pod's memory folder is full, on a small file system of its own; needs root, as the cluster does."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from worker_process import plan_of, running_worker, stand_in

pytestmark = pytest.mark.thorough


@pytest.fixture(params=["nr_inodes=4", "nr_inodes=12", "size=8k", "size=24k"])
def full(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[None]:
    """The worker's runtime folder on a file system that soon is full."""
    folder = tmp_path / "worker" / "run"
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", request.param, "tmpfs", str(folder)], check=True)
    yield
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.usefixtures("full")
async def test_a_full_folder_is_told_whoever_meets_it(tmp_path: Path) -> None:
    async with running_worker(tmp_path, plan_of(stand_in(tmp_path))) as worker:
        assert await worker.exit_code() == 1
        assert worker.termination["reason"] == "DiskFull"
        assert "No space left on device" in worker.termination["message"]
