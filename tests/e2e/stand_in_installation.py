"""The stand-in engine as an installation that a pod mounts at /opt/engine, with knobs that a test turns meanwhile."""

import json
import shutil
from importlib.metadata import files
from pathlib import Path

_STAND_IN = Path(__file__).parent.parent / "stand_in_engine.py"
_PARTS = _STAND_IN.parent / "stand_in"
_DISTRIBUTIONS = ("uvicorn", "h11", "click", "typing-extensions", "prometheus-client")
# The worker starts `bin/python -m vllm... serve MODEL --flags`; this runs the stand-in with the same arguments.
_PYTHON = f"""#!/usr/bin/python3.11
import json, os, sys
here = "/opt/engine"
knobs = json.load(open(here + "/knobs.json"))
path = here + "/packages:" + os.environ.get("PYTHONPATH", "")
environment = {{**os.environ, **knobs, "PYTHONPATH": path}}
os.execve("/usr/bin/python3.11", ["/usr/bin/python3.11", here + "/{_STAND_IN.name}", *sys.argv[1:]], environment)
"""


def install(folder: Path) -> None:
    """Makes the installation in `folder`."""
    (folder / "bin").mkdir(parents=True)
    python = folder / "bin" / "python"
    python.write_text(_PYTHON)
    python.chmod(0o755)
    shutil.copy(_STAND_IN, folder)
    shutil.copytree(_PARTS, folder / _PARTS.name, ignore=shutil.ignore_patterns("__pycache__"))
    for distribution in _DISTRIBUTIONS:
        for file in files(distribution) or ():
            if file.suffix == ".py":
                target = folder / "packages" / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(Path(str(file.locate())), target)
    turn(folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))


def turn(folder: Path, **knobs: str) -> None:
    """Sets the knobs (environment variables of stand_in_engine.py) for engines that start from now on."""
    (folder / "knobs.json").write_text(json.dumps(knobs))
