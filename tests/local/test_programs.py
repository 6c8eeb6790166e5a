"""Building the programs from their pinned modules, on the warm Go cache that `make prepare` leaves."""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from modelfleet_local.binaries import ALL, Binaries
from modelfleet_local.paths import cache_dir


def test_two_callers_at_once_build_a_missing_program_once(tmp_path: Path) -> None:
    said: list[str] = []
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(Binaries(tmp_path).ensure, ["etcd"], said.append) for _ in range(2)]:
            done.result()
    assert [line.partition(":")[2].split()[0] for line in said if "etcd (1 of 1)" in line] == ["built"]
    version = subprocess.run([Binaries(tmp_path).path("etcd"), "--version"], capture_output=True, text=True, check=True)
    assert "etcd Version: 3." in version.stdout
    said.clear()
    Binaries(tmp_path).ensure(["etcd"], said.append)
    assert said == []


@pytest.mark.parametrize("name", ALL)
def test_each_program_is_in_the_cache_after_make_prepare(name: str) -> None:
    assert Binaries(cache_dir()).path(name).exists(), f"{name} is not built; run `make prepare`"
