"""The pause image, compiled here: no registry is asked. Kept in the cache, keyed by its source."""

import os
import tempfile
from hashlib import sha256
from pathlib import Path

from modelfleet_local.images_archive import write_archive, write_layer
from modelfleet_local.locks import locked
from modelfleet_local.paths import LOCAL
from modelfleet_local.system import run_tool

REFERENCE = "localhost/modelfleet-pause:1"
_SOURCE = LOCAL / "pause" / "pause.c"
_KEY_LENGTH = 12
_USER = "65535:65535"  # as in the upstream image


def ensure_pause(cache: Path) -> Path:
    """The image's archive. Raises LocalClusterError if the compiler is missing or refuses."""
    key = sha256(_SOURCE.read_bytes()).hexdigest()[:_KEY_LENGTH]
    archive = cache / "pause" / f"pause-{key}.tar"
    with locked(archive.parent / ".lock"):
        if not archive.exists():
            _build(archive)
    return archive


def _build(archive: Path) -> None:
    with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
        root = Path(scratch) / "root"
        root.mkdir()
        run_tool(["gcc", "-static", "-Os", "-Wall", "-Werror", "-o", str(root / "pause"), str(_SOURCE)])
        layer = write_layer(root, Path(scratch) / "layer.tar")
        draft = Path(scratch) / "pause.tar"
        write_archive(REFERENCE, {"User": _USER, "Entrypoint": ["/pause"]}, [layer], draft)
        os.replace(draft, archive)
