"""What must hold before an engine is worth starting: a model that is whole, and an interpreter. Reads files."""

import os
from pathlib import Path

from modelfleet_worker.failure import Failure, Reason
from modelfleet_worker.fetch.wanted import PICKLED, SAFETENSORS
from modelfleet_worker.json_fields import parsed
from modelfleet_worker.plan import Plan
from modelfleet_worker.safetensors import damage

CONFIG_LIMIT_BYTES = 4 << 20
"""Real ones have some kilobytes."""
_LISTED = 8
_PATH_REMEDY = "Correct the path in spec.model.source, or put the model's folder (with config.json) there."


def check(plan: Plan, python: str) -> Failure | None:
    """The first thing that is wrong; None if an engine may start. `python` is the engine's interpreter."""
    folder = Path(plan.model_path)
    return check_model(folder) or _check_pickles(folder, plan) or _check_weights(folder) or _check_python(python)


def check_model(folder: Path) -> Failure | None:
    """Why there is no readable config.json in `folder`; None if there is."""
    config = folder / "config.json"
    try:
        if config.stat().st_size > CONFIG_LIMIT_BYTES:
            return _config_refused(config, f"it is larger than {CONFIG_LIMIT_BYTES >> 20} MiB")
        text = config.read_text()
    except FileNotFoundError:
        return _model_not_found(f"There is no model at {folder}: {_what_is_there(folder)}.")
    except OSError as error:
        return _model_not_found(f"{config} cannot be read by user {os.getuid()}: {error.strerror}.")
    except UnicodeDecodeError:
        return _config_refused(config, "it is not text")
    try:
        parsed(text, str(config), ValueError)
    except ValueError as error:
        return _refused(f"{error}.")
    return None


def _check_pickles(folder: Path, plan: Plan) -> Failure | None:
    """Weights that are only there as pickles can run code when the engine loads them."""
    try:
        files = os.listdir(folder)
    except OSError:
        return None  # told with the weights
    pickles = sorted(name for name in files if Path(name).suffix.lower() in PICKLED)
    if plan.pickled or not pickles or any(name.endswith(SAFETENSORS) for name in files):
        return None
    message = f"{folder} has weights only as Python pickles ({_quoted(pickles)}), which can run code when loaded."
    remedy = "Convert them to safetensors, or write spec.model.pickledWeights: Allow if you trust them."
    return Failure(reason=Reason.MODEL_REFUSED, message=message, remedy=remedy)


def _check_weights(folder: Path) -> Failure | None:
    """Cut files are found here at once; the engine finds them after its imports, and does not say which one."""
    try:
        wrong = damage(folder)
    except OSError as error:
        return _model_not_found(f"{error.filename} cannot be read by user {os.getuid()}: {error.strerror}.")
    if not wrong:
        return None
    message = f"The weights in {folder} are damaged: {wrong}."
    return Failure(reason=Reason.WEIGHTS_DAMAGED, message=message, remedy="Copy that file again.")


def _what_is_there(folder: Path) -> str:
    try:
        names = sorted(path.name for path in folder.iterdir())
    except FileNotFoundError:
        nearest = next(parent for parent in folder.parents if parent.exists())
        return f"the folder does not exist, and {nearest} holds {_listing(nearest)}"
    except OSError as error:
        return f"the folder cannot be read by user {os.getuid()}: {error.strerror}"
    return f"the folder has no config.json; it holds {_quoted(names)}"


def _listing(folder: Path) -> str:
    try:
        return _quoted(sorted(path.name for path in folder.iterdir()))
    except OSError as error:
        return f"what user {os.getuid()} cannot read: {error.strerror}"


def _quoted(names: list[str]) -> str:
    shown = ", ".join(names[:_LISTED]) or "nothing"
    return shown if len(names) <= _LISTED else f"{shown} and {len(names) - _LISTED} more"


def _model_not_found(message: str) -> Failure:
    return Failure(reason=Reason.MODEL_NOT_FOUND, message=message, remedy=_PATH_REMEDY)


def _config_refused(config: Path, why: str) -> Failure:
    return _refused(f"{config} is not valid JSON: {why}.")


def _refused(message: str) -> Failure:
    return Failure(reason=Reason.MODEL_REFUSED, message=message, remedy="Copy the model's folder again.")


def _check_python(python: str) -> Failure | None:
    if os.access(python, os.X_OK) and Path(python).is_file():
        return None
    message = f"The engine's interpreter {python} does not exist or may not be run by user {os.getuid()}."
    remedy = "Put an engine's environment on the claim in spec.engine.installationClaimName, readable for every user."
    return Failure(reason=Reason.ENGINE_START_FAILED, message=message, remedy=remedy)
