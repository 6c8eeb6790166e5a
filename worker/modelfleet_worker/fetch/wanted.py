"""Which of a server's files are fetched, and which names are refused. Pure."""

from pathlib import PurePosixPath

from modelfleet_worker.failure import Reason
from modelfleet_worker.fetch.remote import MOST_FILES, FetchError, Listing, RemoteFile

SAFETENSORS = ".safetensors"
PICKLED = frozenset({".bin", ".ckpt", ".pickle", ".pkl", ".pt", ".pth"})
"""Endings of files that torch reads as Python pickles."""

_OTHER_ENGINES = frozenset(
    {".gguf", ".h5", ".mlmodel", ".mlpackage", ".msgpack", ".onnx", ".onnx_data", ".ot", ".tflite", ".zip", ".tar"}
)
_OTHER_FOLDERS = frozenset({"coreml", "flax", "onnx", "openvino", "original", "tensorrt"})
_NO_WEIGHTS = frozenset({".jpeg", ".jpg", ".gif", ".mp4", ".pdf", ".png", ".svg", ".webp", ".ipynb"})
_CODE = frozenset({".py"})
_SEGMENT_LIMIT, _PATH_LIMIT = 255, 1024


def wanted(listing: Listing, *, pickled: bool, code: bool) -> tuple[RemoteFile, ...]:
    """The files that the engine needs, in the order of their names. Raises FetchError: a name that leaves its folder,
    no configuration, or no weights that may be served."""
    if len(listing.files) > MOST_FILES:
        raise _refused(
            f"The source has {len(listing.files)} files, more than {MOST_FILES}.", "Name one model's folder."
        )
    for file in listing.files:
        check_path(file.path)
    chosen = [file for file in listing.files if _is_wanted(PurePosixPath(file.path), code)]
    safe = [file for file in chosen if file.path.endswith(SAFETENSORS)]
    pickles = [file for file in chosen if _ending(file) in PICKLED]
    if safe or not pickled:
        chosen = [file for file in chosen if file not in pickles]
    if not any(file.path == "config.json" for file in chosen):
        raise FetchError(
            Reason.MODEL_NOT_FOUND,
            f"The source has no config.json; it has {_some(listing.files)}.",
            "Correct spec.model.source: it names a model's folder.",
        )
    if not safe and not pickled:
        raise _no_weights(pickles, listing)
    _check_together(chosen)
    return tuple(sorted(chosen, key=lambda file: file.path))


def _check_together(chosen: list[RemoteFile]) -> None:
    """What a folder can hold."""
    paths = {file.path for file in chosen}
    if len(paths) < len(chosen):
        raise _refused("The source names a file twice.", "Mend the source.")
    for file in chosen:
        if file.size < 0:
            raise _refused(f"The source says that {file.path} has {file.size} bytes.", "Mend the source.")
        if both := [str(parent) for parent in PurePosixPath(file.path).parents if str(parent) in paths]:
            raise _refused(f"The source names {both[0]} as a file and as a folder.", "Mend the source.")


def check_path(path: str) -> None:
    """Raises FetchError for a name that is no plain relative path below its folder."""
    parts = path.split("/")
    text = path.isprintable() and "\\" not in path and len(path) <= _PATH_LIMIT
    if not text or not all(part not in ("", ".", "..") and len(part.encode()) <= _SEGMENT_LIMIT for part in parts):
        raise _refused(
            f"The source names the file {path[:200]!r}, which is no plain path below the model's folder.",
            "Do not use this source: such a name would write outside of the folder.",
        )


def _is_wanted(path: PurePosixPath, code: bool) -> bool:
    ending = path.suffix.lower()
    if path.parts[0].startswith(".") or (path.parts[0] in _OTHER_FOLDERS and len(path.parts) > 1):
        return False
    return ending not in _OTHER_ENGINES | _NO_WEIGHTS and (code or ending not in _CODE)


def _ending(file: RemoteFile) -> str:
    return PurePosixPath(file.path).suffix.lower()


def _no_weights(pickles: list[RemoteFile], listing: Listing) -> FetchError:
    if pickles:
        return _refused(
            f"The source has weights only as Python pickles ({_some(pickles)}), which can run code when loaded.",
            "Use a source with safetensors, or write spec.model.pickledWeights: Allow if you trust it.",
        )
    return FetchError(
        Reason.MODEL_NOT_FOUND,
        f"The source has no *.safetensors; it has {_some(listing.files)}.",
        "Correct spec.model.source: it names a model's folder.",
    )


def _some(files: list[RemoteFile] | tuple[RemoteFile, ...]) -> str:
    names = sorted(file.path[:80] for file in files)
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "") if names else "nothing"


def _refused(message: str, remedy: str) -> FetchError:
    return FetchError(Reason.MODEL_REFUSED, message, remedy)
