"""Which pod a worker is, from what the kubelet mounts into its container."""

import socket
from pathlib import Path

import pytest

from modelfleet_worker.identity import identity

UID = "2f6c1c0e-6f0a-4c0b-9a55-0d9f3f0d8a11"
OTHER = "11111111-2222-4333-8444-555555555555"


def line(root: str, target: str) -> str:
    return f"713 652 259:1 {root} {target} rw,relatime - ext4 /dev/root rw"


@pytest.mark.parametrize(
    ("lines", "uid"),
    [
        pytest.param([line(f"/var/lib/kubelet/pods/{UID}/etc-hosts", "/etc/hosts")], UID, id="the hosts file"),
        pytest.param(
            [line(f"/data/kubelet/pods/{UID}/containers/worker/5a1b2c3d", "/dev/termination-log")],
            UID,
            id="the termination log, of a kubelet whose folder is elsewhere",
        ),
        pytest.param(
            [line(f"/kubelet/pods/{UID}/volumes/kubernetes.io~empty-dir/tmp", "/tmp"), line("/", "/dev/shm")],
            UID,
            id="a volume",
        ),
        pytest.param([line("/", "/"), line("/hosts", "/etc/hosts")], "", id="a runtime that shows nothing"),
        pytest.param(
            [line(f"/k/pods/{one}/etc-hosts", f"/k/{one}") for one in (UID, OTHER)], "", id="a machine with many pods"
        ),
        pytest.param(["", "garbage"], "", id="another format"),
    ],
)
def test_the_uid_is_that_of_the_pods_own_folder(tmp_path: Path, lines: list[str], uid: str) -> None:
    (tmp_path / "mountinfo").write_text("\n".join(lines))
    found = identity(tmp_path / "mountinfo")
    assert (found.uid, found.pod) == (uid, socket.gethostname())


def test_without_the_file_only_the_name_is_known(tmp_path: Path) -> None:
    assert identity(tmp_path / "none").uid == ""
