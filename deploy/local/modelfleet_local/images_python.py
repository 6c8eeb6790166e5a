"""The Python environment of an image as folders: packages pinned by uv.lock, console scripts, and our own code."""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from modelfleet_local.errors import LocalClusterError
from modelfleet_local.images_recipe import Recipe
from modelfleet_local.paths import UV_VERSION, cache_dir

PYTHON_VERSION = "3.11"
PYTHON = f"/usr/bin/python{PYTHON_VERSION}"  # where the base layer has it; engine volumes link to it too
SOURCES = ("operator/modelfleet", "worker/modelfleet_worker", "pyproject.toml", "README.md", "LICENSE")
_INSTALLER_TRACES = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json", "uv_build.json")
_SCRIPT = "#!{environment}/bin/python\nimport sys\n\nfrom {module} import {function}\n\nsys.exit({function}())\n"


def requirements(extras: Sequence[str], repository: Path) -> str:
    """The packages of `extras` as uv.lock pins them, with hashes, without our own."""
    flags = [f"--extra={extra}" for extra in extras]
    return _uv("export", "--frozen", "--no-dev", "--no-emit-project", "--no-header", *flags, cwd=repository)


def copy_sources(repository: Path, target: Path) -> None:
    """Copies what our own package is built from, so that it holds still while it is read."""
    for name in SOURCES:
        source = repository / name
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target / name)


def install_dependencies(pinned: str, recipe: Recipe, commands: Sequence[str], root: Path) -> None:
    """Makes the environment of `recipe` in `root`: `pinned` packages, a link to the base's Python, console scripts."""
    environment = root / recipe.environment.lstrip("/")
    packages = environment / f"lib/python{PYTHON_VERSION}/site-packages"
    packages.mkdir(parents=True)
    _uv("pip", "install", "--require-hashes", "--only-binary=:all:", *_into(packages), "--requirements=-", given=pinned)
    _clean(packages)
    (packages / "modelfleet.pth").write_text(f"{recipe.application}\n")
    compile_bytecode(packages, root)
    home = PYTHON.rpartition("/")[0]
    (environment / "pyvenv.cfg").write_text(f"home = {home}\nversion = {PYTHON_VERSION}\n")
    (environment / "bin").mkdir()
    (environment / "bin/python").symlink_to(PYTHON)
    _write_scripts(environment / "bin", root / "usr/local/bin", recipe, commands)


def install_application(sources: Path, recipe: Recipe, root: Path) -> None:
    """Puts our own packages, built from `sources`, into `root`."""
    application = root / recipe.application.lstrip("/")
    application.mkdir(parents=True)
    _uv("pip", "install", "--no-deps", *_into(application), str(sources))
    _clean(application)
    compile_bytecode(application, root)


def compile_bytecode(folder: Path, root: Path) -> None:
    """Compiles what is under `folder`; a read-only image could not keep bytecode made at run time.

    The bytecode is not checked against the sources' times, which the layer sets to zero.
    """
    if sys.version_info[:2] != tuple(map(int, PYTHON_VERSION.split("."))):
        running = ".".join(map(str, sys.version_info[:2]))
        raise LocalClusterError(
            f"images hold Python {PYTHON_VERSION}, and this is Python {running}: run it with python{PYTHON_VERSION}"
        )
    mode = ("--invalidation-mode", "unchecked-hash")
    command = (sys.executable, "-I", "-m", "compileall", "-q", "-f", *mode, "-s", str(root), "-p", "/", str(folder))
    done = subprocess.run(command, env={"PYTHONHASHSEED": "0"}, capture_output=True, text=True)
    if done.returncode:
        raise LocalClusterError(f"a Python file does not compile: {done.stdout.strip()}")


def _into(folder: Path) -> tuple[str, ...]:
    return ("--target", str(folder), "--python", sys.executable, "--link-mode=copy", "--no-progress")


def _clean(packages: Path) -> None:
    """Removes the scripts, whose first line names this machine's Python, and the traces of the installation."""
    shutil.rmtree(packages / "bin", ignore_errors=True)
    (packages / ".lock").unlink(missing_ok=True)
    for info in packages.glob("*.dist-info"):
        for name in _INSTALLER_TRACES:
            (info / name).unlink(missing_ok=True)


def _write_scripts(bin_folder: Path, links: Path, recipe: Recipe, commands: Sequence[str]) -> None:
    links.mkdir(parents=True)
    for command in commands:
        module, _, function = recipe.scripts[command].partition(":")
        script = bin_folder / command
        script.write_text(_SCRIPT.format(environment=recipe.environment, module=module, function=function))
        script.chmod(0o755)
        (links / command).symlink_to(f"{recipe.environment}/bin/{command}")


def _uv(*arguments: str, cwd: Path | None = None, given: str | None = None) -> str:
    uv = cache_dir() / f"uv-{UV_VERSION}" / "bin" / "uv"
    if not uv.exists():
        raise LocalClusterError(f"uv {UV_VERSION} is missing: run `make setup`, which installs it")
    command = (str(uv), "--quiet", *arguments)
    done = subprocess.run(command, cwd=cwd, input=given, capture_output=True, text=True)
    if done.returncode:
        raise LocalClusterError(f"uv {' '.join(arguments[:2])} failed: {done.stderr.strip()}")
    return done.stdout
