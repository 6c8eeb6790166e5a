"""What a layer keeps of a folder, and what an archive says about an image."""

import json
import os
import tarfile
from hashlib import sha256
from pathlib import Path

import pytest

from modelfleet_local.images_archive import Layer, write_archive, write_layer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "folder")


def make_folder(folder: Path) -> Path:
    for name in ("usr/bin", "tmp", "etc"):
        (folder / name).mkdir(parents=True)
    (folder / "bin").symlink_to("usr/bin")
    (folder / "etc/hosts").write_text("localhost\n")
    (folder / "usr/bin/tool").write_text("#!/bin/sh\n")
    (folder / "usr/bin/tool").chmod(0o4711)
    return folder


def members(layer: Layer) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(layer.path) as tar:
        return {member.name: member for member in tar}


def test_a_layer_holds_folders_files_and_links(folder: Path, tmp_path: Path) -> None:
    found = members(write_layer(folder, tmp_path / "layer.tar"))
    assert sorted(found) == ["bin", "etc", "etc/hosts", "tmp", "usr", "usr/bin", "usr/bin/tool"]
    assert found["bin"].linkname == "usr/bin"


def test_a_layer_belongs_to_root_and_keeps_no_setuid_bit(folder: Path, tmp_path: Path) -> None:
    found = members(write_layer(folder, tmp_path / "layer.tar"))
    assert {(member.uid, member.gid, member.mtime) for member in found.values()} == {(0, 0, 0)}
    assert {name: oct(found[name].mode) for name in ("usr", "tmp", "etc/hosts", "usr/bin/tool")} == {
        "usr": "0o755",
        "tmp": "0o1777",
        "etc/hosts": "0o644",
        "usr/bin/tool": "0o755",
    }


def test_equal_folders_make_equal_layers_whatever_their_times_and_modes(folder: Path, tmp_path: Path) -> None:
    other = make_folder(tmp_path / "other")
    os.utime(other / "etc/hosts", (1, 1))
    (other / "etc/hosts").chmod(0o600)
    first, second = write_layer(folder, tmp_path / "1.tar"), write_layer(other, tmp_path / "2.tar")
    assert first.digest == second.digest
    assert first.digest == f"sha256:{sha256(first.path.read_bytes()).hexdigest()}"


def test_an_archive_names_the_image_for_containerd_and_every_blob_is_what_its_name_says(
    folder: Path, tmp_path: Path
) -> None:
    layer = write_layer(folder, tmp_path / "layer.tar")
    config = {"User": "65532:65532", "Entrypoint": ["tool"]}
    digest = write_archive("localhost/modelfleet/tool:1", config, [layer], tmp_path / "image.tar")
    with tarfile.open(tmp_path / "image.tar") as tar:
        blobs = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    index = json.loads(blobs.pop("index.json"))
    assert json.loads(blobs.pop("oci-layout")) == {"imageLayoutVersion": "1.0.0"}
    assert {name: f"blobs/sha256/{sha256(blob).hexdigest()}" for name, blob in blobs.items()} == {n: n for n in blobs}
    (entry,) = index["manifests"]
    assert entry["digest"] == digest
    assert entry["annotations"]["io.containerd.image.name"] == "localhost/modelfleet/tool:1"
    manifest = json.loads(blobs[f"blobs/{digest.replace(':', '/')}"])
    image = json.loads(blobs[f"blobs/{manifest['config']['digest'].replace(':', '/')}"])
    assert image["config"] == config
    assert image["rootfs"]["diff_ids"] == [one["digest"] for one in manifest["layers"]] == [layer.digest]
