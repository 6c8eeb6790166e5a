"""Code that an engine compiled, kept for later starts: what is kept, and under which name. Reads files of this machine.

A name stands for everything that compiled code depends on and that can be seen from here: what the operator says of
model, class and settings, the engine's installed files, and the processors. What differs in any of these is compiled
anew and kept beside. The engine's own checks (vLLM and torch hash their settings and sources) come after that.
"""

import json
import platform
import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

from modelfleet_worker.engine_version import packages

FOLDERS = ("vllm/torch_compile_cache", "vllm/deep_gemm", "vllm/modelinfos", "inductor", "triton", "numba")
"""What is kept of the engine's caches, below its scratch folder (command.py sets their places). The rest of vLLM's
cache root is of one start or of one node: memory that was free, which devices reach each other."""

_READ_WHOLE = re.compile(r"(vllm|torch|triton)[^/]*\.dist-info")  # RECORD lists every file with its digest
_OF_CPU = ("model name", "flags", "CPU implementer", "CPU part", "Features")


def store_key(plan_key: str, python: str, proc: Path = Path("/proc")) -> str:
    """The name under which code is kept that the engine of the interpreter `python` compiles here. `proc` is /proc but
    in tests."""
    seen = [plan_key, platform.machine(), *platform.libc_ver(), *_installed(Path(python)), *_processors(proc)]
    return sha256(json.dumps(seen).encode()).hexdigest()[:32]


def _installed(python: Path) -> Iterator[str]:
    """Every installed package by name and version; of those that compile, each file by its digest."""
    for folder in packages(python):
        for found in sorted(folder.glob("*.dist-info")):
            yield found.name
            if _READ_WHOLE.fullmatch(found.name):
                yield sha256(_content(found / "RECORD")).hexdigest()


def _processors(proc: Path) -> Iterator[str]:
    """The first processor's kind, and the accelerators with their driver, as far as the kernel tells."""
    first = _content(proc / "cpuinfo").decode(errors="replace").split("\n\n", 1)[0]
    fields = dict(line.partition(":")[::2] for line in first.splitlines())
    yield from (f"{name.strip()}: {value.strip()}" for name, value in fields.items() if name.strip() in _OF_CPU)
    driver = proc / "driver/nvidia"
    yield _content(driver / "version").decode(errors="replace")
    models = {
        line
        for each in sorted(driver.glob("gpus/*/information"))
        for line in _content(each).decode(errors="replace").splitlines()
        if line.startswith("Model:")
    }
    yield from sorted(models)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
