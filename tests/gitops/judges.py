"""What Argo CD and Flux say of an object: their own Lua interpreter and library on our scripts and expressions."""

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from modelfleet_local.binaries import Binaries
from modelfleet_local.paths import REPOSITORY, cache_dir

GITOPS = REPOSITORY / "deploy" / "gitops"
SCRIPTS = GITOPS / "argocd" / "modelfleet.dev"
KUSTOMIZATION = GITOPS / "flux" / "kustomization.yaml"

# Argo CD opens the base and table libraries and a part of os, and gives the object as the global `obj`. A script that
# used more would work here and fail there, so the rest is taken away, the methods of strings included.
_DRIVER = """
local print, loadfile, format = print, loadfile, string.format
obj = %s
getmetatable("").__index = nil
string, io, math, debug, coroutine, os, channel = nil, nil, nil, nil, nil, nil, nil
local health = assert(loadfile(%s))()
assert(type(health) == "table", "no table was returned")
print(health.status)
print(health.message)
"""


def program(name: str) -> Path:
    """A program that `make prepare` builds."""
    binary = Binaries(cache_dir()).path(name)
    assert binary.exists(), f"{name} is missing: run `make prepare`, which builds it"
    return binary


def argo_cd(obj: Mapping[str, Any], folder: Path) -> tuple[str, str]:
    """The health status and message that Argo CD would show for the object."""
    driver = folder / "driver.lua"
    driver.write_text(_DRIVER % (_lua(obj), _lua(str(SCRIPTS / str(obj["kind"]) / "health.lua"))))
    done = subprocess.run([program("glua"), driver], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    status, _, message = done.stdout.partition("\n")
    return status, message.rstrip("\n")


def flux(objects: Sequence[Mapping[str, Any]], *kustomization: Path) -> list[str]:
    """Current, InProgress, Failed or Terminating, of each object; by a Kustomization's healthCheckExprs if given."""
    lines = "\n".join(json.dumps(obj) for obj in objects)
    argv = [program("kstatus"), *kustomization]
    done = subprocess.run(argv, input=lines, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line)["status"] for line in done.stdout.splitlines()]


def _lua(value: Any) -> str:
    """A value as a Lua expression."""
    match value:
        case None:
            return "nil"
        case bool():
            return str(value).lower()
        case int() | float():
            return repr(value)
        case str():
            return '"' + "".join(f"\\{byte:03d}" for byte in value.encode()) + '"'
        case Mapping():
            return "{" + ", ".join(f"[{_lua(key)}] = {_lua(part)}" for key, part in value.items()) + "}"
        case _:
            return "{" + ", ".join(_lua(part) for part in value) + "}"
