"""A Prometheus server for tests: Debian's package, unpacked into the cache. Nothing is installed, no service starts.

It lies in `prometheus-VERSION`; an older version is removed when a newer one comes.
"""

import shutil
import tempfile
from pathlib import Path

from modelfleet_local.errors import LocalClusterError
from modelfleet_local.images_debian import resolve_files, unpack_files
from modelfleet_local.images_recipe import DebianFiles
from modelfleet_local.locks import locked
from modelfleet_local.progress import Say

INSTALL_COMMAND = "make e2e-prometheus"
_PROGRAM = "usr/bin/prometheus"
_WANTED = DebianFiles(packages=("prometheus",), files=(_PROGRAM,), links={})


def require_prometheus(cache: Path) -> Path:
    """The server's program. Raises LocalClusterError."""
    found = [path for folder in cache.glob("prometheus-*") if (path := folder / _PROGRAM).exists()]
    if not found:
        raise LocalClusterError(f"Prometheus is not in the cache: run `{INSTALL_COMMAND}`, which fetches it")
    return max(found, key=lambda path: path.stat().st_ctime)


def ensure_prometheus(cache: Path, say: Say) -> Path:
    """The same, fetched now if apt knows a version that is not there. Raises LocalClusterError."""
    cache.mkdir(parents=True, exist_ok=True)
    with locked(cache / ".prometheus.lock", "another process is fetching Prometheus; waiting for it", say):
        packages = resolve_files(_WANTED)
        folder = cache / f"prometheus-{packages[0].version}"
        if not (folder / _PROGRAM).exists():
            say(f"prometheus: fetching Debian's package {packages[0]} (20 MB)")
            with tempfile.TemporaryDirectory(dir=cache, prefix=".prometheus-") as scratch:
                root = Path(scratch, "root")
                unpack_files(_WANTED, packages, root, Path(scratch))
                for older in cache.glob("prometheus-*"):
                    shutil.rmtree(older)
                root.rename(folder)
    return folder / _PROGRAM
