"""The machine's own programs: run, looked for, and named with their package when they are missing."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from modelfleet_local.errors import LocalClusterError
from modelfleet_local.paths import DEBIAN_PACKAGES


def run_tool(argv: Sequence[str]) -> str:
    """Runs a system program and gives its output. Raises LocalClusterError with the program's own words."""
    try:
        done = subprocess.run(argv, env=tool_environment(), capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise LocalClusterError(f"{argv[0]} is not installed; run `make setup`") from None
    if done.returncode != 0:
        raise LocalClusterError(f"`{' '.join(argv)}` failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def tool_environment() -> dict[str, str]:
    """This process's environment with the folders of system programs on PATH: not every root's shell has them."""
    return {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin"}


def require_packages() -> None:
    """Raises LocalClusterError that names the Debian packages whose programs are missing."""
    missing = []
    for line in DEBIAN_PACKAGES.read_text().splitlines():
        alternatives, _, package = line.partition("#")[0].strip().partition(" ")
        if alternatives and not any(_is_there(one) for one in alternatives.split("|")):
            missing.append(package.strip())
    if missing:
        raise LocalClusterError(f"missing Debian packages: {', '.join(sorted(set(missing)))}; run `make setup`")


def _is_there(program: str) -> bool:
    if program.startswith("/"):
        return Path(program).exists()
    return shutil.which(program, path=tool_environment()["PATH"]) is not None
