"""Reading what the kernel makes: all of it, whatever is in it."""

import os
from pathlib import Path

import pytest

from modelfleet_worker.kernel_files import kernel_text


def test_a_file_that_is_larger_than_one_read_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "stat").write_text("line\n" * 10_000)
    assert kernel_text(tmp_path / "stat") == "line\n" * 10_000


def test_a_name_that_was_cut_within_a_character_does_not_break_the_reading(tmp_path: Path) -> None:
    (tmp_path / "stat").write_bytes("7 (kühlschra".encode()[:5] + b") S 1")
    assert kernel_text(f"{tmp_path}/stat").endswith(") S 1")


def test_a_file_of_the_kernel_which_says_that_it_has_no_bytes_is_read_and_closed() -> None:
    before = len(os.listdir("/proc/self/fd"))
    assert kernel_text("/proc/self/stat").startswith(f"{os.getpid()} (")
    with pytest.raises(FileNotFoundError):
        kernel_text("/proc/self/none")
    assert len(os.listdir("/proc/self/fd")) == before
