"""OCI image archives: folders become layers, layers and a configuration become a tar that containerd imports.

Equal folders make equal layers: paths are sorted, owners are root, times are zero, and no file keeps a setuid bit.
"""

import io
import json
import os
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

_EPOCH = "1970-01-01T00:00:00Z"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
_INDEX = "application/vnd.oci.image.index.v1+json"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Layer:
    """An uncompressed layer: its digest is also its diff id."""

    path: Path
    digest: str
    size_bytes: int


def write_layer(folder: Path, target: Path) -> Layer:
    """Writes what is in `folder` as a layer."""
    with tarfile.open(target, "w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            _add(tar, path, path.relative_to(folder).as_posix())
    return read_layer(target)


def read_layer(path: Path) -> Layer:
    """The layer that lies at `path`."""
    with path.open("rb") as file:
        return Layer(path, _digest(file), path.stat().st_size)


def write_archive(reference: str, config: Mapping[str, Any], layers: Sequence[Layer], target: Path) -> str:
    """Writes an archive for `ctr images import` and gives the image's manifest digest.

    `config` is the `config` object of an OCI image configuration: User, Env, Entrypoint and so on.
    """
    image = {
        "created": _EPOCH,
        "architecture": _ARCHITECTURES[os.uname().machine],
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [layer.digest for layer in layers]},
        "history": [{"created": _EPOCH, "created_by": "modelfleet_local.images"} for _ in layers],
    }
    config_blob = _encode(image)
    manifest_blob = _encode(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _descriptor(_CONFIG, config_blob),
            "layers": [{"mediaType": _LAYER, "digest": one.digest, "size": one.size_bytes} for one in layers],
        }
    )
    manifest = _descriptor(_MANIFEST, manifest_blob)
    names = {"io.containerd.image.name": reference, "org.opencontainers.image.ref.name": reference.rpartition(":")[2]}
    index_blob = _encode({"schemaVersion": 2, "mediaType": _INDEX, "manifests": [manifest | {"annotations": names}]})
    with tarfile.open(target, "w") as tar:
        _add_bytes(tar, "oci-layout", _encode({"imageLayoutVersion": "1.0.0"}))
        for blob in (config_blob, manifest_blob):
            _add_bytes(tar, _blob_name(_digest(io.BytesIO(blob))), blob)
        for layer in layers:
            info = _info(_blob_name(layer.digest), tarfile.REGTYPE, 0o644)
            info.size = layer.size_bytes
            with layer.path.open("rb") as file:
                tar.addfile(info, file)
        _add_bytes(tar, "index.json", index_blob)
    return str(manifest["digest"])


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    if path.is_symlink():
        info = _info(name, tarfile.SYMTYPE, 0o777)
        info.linkname = os.readlink(path)
        tar.addfile(info)
    elif path.is_dir():
        tar.addfile(_info(name, tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755))
    else:
        executable = path.stat().st_mode & 0o111
        info = _info(name, tarfile.REGTYPE, 0o755 if executable else 0o644)
        info.size = path.stat().st_size
        with path.open("rb") as file:
            tar.addfile(info, file)


def _info(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)  # uid, gid and mtime are zero already
    info.type, info.mode = kind, mode
    return info


def _add_bytes(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = _info(name, tarfile.REGTYPE, 0o644)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))


def _descriptor(media_type: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(io.BytesIO(blob)), "size": len(blob)}


def _blob_name(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _encode(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def _digest(file: io.BufferedIOBase) -> str:
    digest = sha256()
    for block in _blocks(file):
        digest.update(block)
    return f"sha256:{digest.hexdigest()}"


def _blocks(file: io.BufferedIOBase) -> Iterator[bytes]:
    while block := file.read(1 << 20):
        yield block
