"""Stand-ins for the NVIDIA libraries that the CUDA build of torch links to. Writes libraries with readelf and cc.

torch's libraries look for others beside themselves, so a stand-in there is found. Functions bind when first called, and
on a machine without a GPU none is called. Each stand-in carries the library's name and symbol versions; each of its
functions gives 1, which is an error in all of these interfaces.
"""

import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from modelfleet_local.errors import LocalClusterError

# Really called (it answers "no driver"), so it is installed.
_REAL = frozenset({"libcudart.so.13"})
# Loaded on demand only, never without a GPU.
_IGNORED = frozenset({"libcaffe2_nvrtc.so"})
_SYSTEM = ("libc.", "libm.", "libdl.", "librt.", "libpthread.", "libgcc_s", "libstdc++", "ld-linux", "libgomp")
# Symbols without a version: the library they belong to, by their prefix.
_OWNERS = {
    "cusparseLt": "libcusparseLt.so.0",
    "cuFile": "libcufile.so.0",
    "nccl": "libnccl.so.2",
    "nvshmem": "libnvshmem_host.so.3",
}
Symbols = dict[str, str]  # name: version, "" without one


def write_stubs(libraries: Path) -> tuple[str, ...]:
    """Writes what the shared libraries in `libraries` need and lack, into the same folder, and gives the names.

    Raises LocalClusterError if one of the two programs is missing.
    """
    for program, package in (("readelf", "binutils"), ("cc", "gcc")):
        if shutil.which(program) is None:
            raise LocalClusterError(
                f"{program} is missing, which the engine's installation needs: apt-get install {package}"
            )
    present = {path.name for path in libraries.iterdir()}
    needed: set[str] = set()
    symbols: defaultdict[str, Symbols] = defaultdict(dict)
    for path in sorted(libraries.glob("*.so*")):
        if path.name in _IGNORED:
            continue
        needed |= {name for name in _needed(path) if name not in present and not name.startswith(_SYSTEM)}
        for library, name, version in _undefined(path):
            symbols[library][name] = version
    missing = sorted(needed - _REAL)
    for name in missing:
        _compile(libraries / name, symbols[name])
    return tuple(missing)


def _needed(path: Path) -> Iterable[str]:
    for line in _readelf("-d", path):
        if "(NEEDED)" in line:
            yield line.partition("[")[2].rstrip("]")


def _undefined(path: Path) -> Iterable[tuple[str, str, str]]:
    """(library, symbol, version) of what `path` takes from an NVIDIA library."""
    for line in _readelf("--dyn-syms", path):
        columns = line.split()
        if len(columns) < 8 or columns[6] != "UND":
            continue
        name, _, version = columns[7].replace("@@", "@").partition("@")
        library = owner(name, version)
        if library is not None and not library.startswith(_SYSTEM):
            yield library, name, version


def owner(name: str, version: str) -> str | None:
    """The library that a symbol comes from; None if it is none of NVIDIA's."""
    if version.startswith("lib") and ".so" in version:
        return version
    return next((library for prefix, library in _OWNERS.items() if name.startswith(prefix)), None)


def version_script(symbols: Mapping[str, str]) -> str:
    """The linker script that gives each symbol its version; empty if none has one."""
    by_version: defaultdict[str, list[str]] = defaultdict(list)
    for name, version in sorted(symbols.items()):
        if version:
            by_version[version].append(name)
    return "".join(f"{version} {{ global: {'; '.join(names)}; }};\n" for version, names in sorted(by_version.items()))


def _compile(target: Path, symbols: Symbols) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        source, script = Path(scratch, "stub.c"), Path(scratch, "stub.map")
        source.write_text(
            "".join(f"int {name}(void) {{ return 1; }}\n" for name in sorted(symbols)) or "int modelfleet_stub;\n"
        )
        script.write_text(version_script(symbols))
        command = ["cc", "-shared", "-fPIC", "-nostdlib", "-w", "-fno-builtin", "-s", "-o", str(target), str(source)]
        command.append(f"-Wl,-soname,{target.name}")
        if script.read_text():
            command.append(f"-Wl,--version-script,{script}")
        subprocess.run(command, check=True)


def _readelf(option: str, path: Path) -> list[str]:
    command = ("readelf", option, "--wide", str(path))
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
