"""The engine on this machine: vLLM for CPU, and a tiny model, installed once into the cache. Downloads about 1 GB.

The environment runs on this host and, mounted read-only at /opt/engine, in a container: both have Debian's Python at
one place, and nothing in it names the folder where it lies. Run things as `bin/python -m MODULE`: there are no other
programs in it.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

from modelfleet_local import engine_stubs, engine_workarounds
from modelfleet_local.errors import LocalClusterError
from modelfleet_local.golang import find_uv
from modelfleet_local.locks import locked
from modelfleet_local.paths import LOCAL
from modelfleet_local.progress import Say, still_at_it

MOUNT = "/opt/engine"
PYTHON = "/usr/bin/python3.11"  # Debian's, also in the worker's image; never one under a home folder
INSTALL_COMMAND = "make prepare"
_INPUTS = LOCAL / "engine"
_PACKAGES = "lib/python3.11/site-packages"
_KEY_LENGTH = 12
_KEPT = 2  # a checkout of another branch may still run on the one before


def engine_folder(cache: Path) -> Path:
    """Where the environment for the present inputs lies, installed or not."""
    return cache / f"engine-{_key(*_engine_inputs())}"


def model_folder(cache: Path) -> Path:
    """Where the tiny model for the present inputs lies, made or not. It holds config.json itself, no sub folder."""
    return cache / f"model-{_key(*_model_inputs())}"


def require_engine(cache: Path) -> Path:
    """The installed environment. Imports nothing of it. Raises LocalClusterError."""
    return _require(engine_folder(cache), "bin/python", "the engine")


def require_model(cache: Path) -> Path:
    """The tiny model. Raises LocalClusterError."""
    return _require(model_folder(cache), "config.json", "the tiny model")


def ensure_engine(cache: Path, say: Say = print) -> Path:
    """The environment, installed now if it is missing. `say` gets a line before each step that takes long.

    Safe to call from several processes at once; an interrupted installation leaves nothing that counts.
    Raises LocalClusterError.
    """
    return _ensure(cache, engine_folder(cache), lambda draft: _install(find_uv(cache), draft, say))


def ensure_model(cache: Path, say: Say = print) -> Path:
    """The tiny model, made now if it is missing, in the engine, which is installed first. Raises LocalClusterError."""
    engine = ensure_engine(cache, say)
    return _ensure(cache, model_folder(cache), lambda draft: _make_model(engine, draft, say))


def _require(folder: Path, proof: str, what: str) -> Path:
    if (folder / proof).exists():
        return folder
    raise LocalClusterError(f"{what} is not in the cache ({folder.name}): run `{INSTALL_COMMAND}`")


def _ensure(cache: Path, folder: Path, make: Callable[[Path], None]) -> Path:
    cache.mkdir(parents=True, exist_ok=True)
    kind = folder.name.partition("-")[0]
    with locked(cache / f".{kind}.lock"):
        if not folder.exists():
            for left_over in cache.glob(f".{kind}-draft-*"):
                shutil.rmtree(left_over)
            draft = Path(tempfile.mkdtemp(dir=cache, prefix=f".{kind}-draft-"))
            try:
                make(draft)
                _make_readable(draft)
                draft.rename(folder)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
            _keep_newest(cache, f"{kind}-*")
        os.utime(folder)
    return folder


def _install(uv: Path, draft: Path, say: Say) -> None:
    if not Path(PYTHON).exists():
        raise LocalClusterError(f"{PYTHON} is missing: apt-get install python3.11")
    packages = draft / _PACKAGES
    packages.mkdir(parents=True)
    (draft / "bin").mkdir()
    (draft / "bin/python").symlink_to(PYTHON)
    home = PYTHON.rpartition("/")[0]
    (draft / "pyvenv.cfg").write_text(f"home = {home}\ninclude-system-site-packages = false\nversion = 3.11\n")
    say("engine: installing vLLM for CPU and torch (1.0 GB to download, 2.8 GB on disk)")
    with still_at_it(say, "engine: installing"):
        for lock in ("requirements.lock", "torch.lock"):
            _install_packages(uv, draft, lock)
    _remove_scripts(draft)
    engine_workarounds.apply(packages, _INPUTS)
    say("engine: compiling bytecode")
    with still_at_it(say, "engine: compiling"):
        _compile_bytecode(draft)


def _install_packages(uv: Path, draft: Path, lock: str) -> None:
    flags = ("--no-deps", "--require-hashes", "--only-binary=:all:", "--no-progress")
    target = ("--python", str(draft / "bin/python"), "--requirements", str(_INPUTS / lock))
    _run((str(uv), "--quiet", "pip", "install", *flags, *target), f"uv could not install {lock}")


def _remove_scripts(draft: Path) -> None:
    """Removes all programs but Python: their first lines name the draft's folder."""
    for path in (draft / "bin").iterdir():
        if path.name != "python":
            path.unlink()


def _compile_bytecode(draft: Path) -> None:
    """Compiles everything, which halves the start; not checked against the sources' times, which a volume may lose."""
    flags = ("-qq", "-j", "0", "--invalidation-mode", "unchecked-hash", "-s", str(draft), "-p", MOUNT)
    command = (str(draft / "bin/python"), "-I", "-m", "compileall", *flags, str(draft / _PACKAGES))
    subprocess.run(command, check=False)  # a file for another version of Python stays uncompiled


def _make_model(engine: Path, draft: Path, say: Say) -> None:
    say("engine: making the tiny model")
    offline = {"HF_HUB_OFFLINE": "1", "HOME": str(draft), "TOKENIZERS_PARALLELISM": "false", "PATH": os.defpath}
    command = (str(engine / "bin/python"), str(_INPUTS / "tiny_model.py"), str(draft))
    _run(command, "the tiny model could not be made", env=offline)


def _make_readable(folder: Path) -> None:
    """Lets every user read `folder`: pods run as another one than who installs. Folders above it may stay private."""
    for root, _, files in os.walk(folder):
        os.chmod(root, 0o755)
        for name in files:
            path = Path(root, name)
            if not path.is_symlink() and path.stat().st_mode & 0o444 != 0o444:
                path.chmod(path.stat().st_mode | 0o444)


def _keep_newest(cache: Path, pattern: str) -> None:
    for path in sorted(cache.glob(pattern), key=lambda path: path.stat().st_mtime, reverse=True)[_KEPT:]:
        shutil.rmtree(path)


def _run(command: tuple[str, ...], failure: str, env: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode:
        raise LocalClusterError(f"{failure}: {done.stderr.strip()[-2000:]}")


def _engine_inputs() -> tuple[Path, ...]:
    data = (_INPUTS / name for name in ("requirements.lock", "torch.lock", "cpu_fixes.py"))
    return (*data, *(Path(str(module.__file__)) for module in (engine_stubs, engine_workarounds)))


def _model_inputs() -> tuple[Path, ...]:
    return tuple(_INPUTS / name for name in ("requirements.lock", "torch.lock", "tiny_model.py"))


def _key(*paths: Path) -> str:
    return sha256(b"\0".join(path.read_bytes() for path in paths)).hexdigest()[:_KEY_LENGTH]
