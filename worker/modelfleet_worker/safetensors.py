"""Headers of safetensors files: readable ones, and files that are not what their header says. Reads files.

The format: the header's length (8 bytes, little endian), the header (JSON), then the tensors' bytes up to the end.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from modelfleet_worker.json_fields import parsed

_HEADER_LIMIT_BYTES = 100 * 10**6  # the format's own


def read_header(path: Path) -> dict[str, Any]:
    """The header of a file. Raises OSError, or ValueError with a sentence that names the file."""
    with path.open("rb") as file:
        return header_of(file.read(header_length(file.read(8), path.name)), path.name)


def damage(folder: Path) -> str:
    """What is wrong with the folder's weights, as far as their headers and sizes tell; empty if nothing is.

    Other kinds of files, and the bytes of tensors, are not looked at. Raises OSError.
    """
    for path in sorted(folder.glob("*.safetensors")):
        try:
            header = read_header(path)
        except ValueError as error:
            return str(error)
        if wrong := wrong_size(path, header):
            return wrong
    return _missing(folder)


def wrong_size(path: Path, header: Mapping[str, Any]) -> str:
    """That a file is not as long as its header says; empty if it is. Raises OSError."""
    ends = [value["data_offsets"][1] for name, value in header.items() if name != "__metadata__"]
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
    wanted, there = 8 + length + max(ends, default=0), path.stat().st_size
    return "" if there == wanted else f"{path.name} has {there} bytes and its header speaks of {wanted}"


def _missing(folder: Path) -> str:
    """A file that the index names and that is not there."""
    index = folder / "model.safetensors.index.json"
    try:
        named = parsed(index.read_text(), index.name, ValueError)["weight_map"].values()
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ""  # no index, or one that the engine will complain of
    gone = sorted({str(name) for name in named if not (folder / str(name)).exists()})
    return f"{index.name} names {gone[0]}, which is not there" if gone else ""


def header_length(start: bytes, name: str) -> int:
    """The header's length from the first 8 bytes of the file `name`. Raises ValueError."""
    length = int.from_bytes(start, "little") if len(start) == 8 else 0
    if not 0 < length <= _HEADER_LIMIT_BYTES:
        raise ValueError(f"{name} is no safetensors file")
    return length


def header_of(text: bytes, name: str) -> dict[str, Any]:
    """The header in `text`. Raises ValueError."""
    try:
        header = parsed(text, name, ValueError)
    except ValueError as error:
        raise ValueError(f"{name} has no readable header") from error
    if not isinstance(header, dict) or not all(_is_tensor(each, value) for each, value in header.items()):
        raise ValueError(f"{name} has no readable header")
    return header


def _is_tensor(name: str, value: Any) -> bool:
    if name == "__metadata__":
        return True
    offsets = value.get("data_offsets") if isinstance(value, dict) else None
    return (
        isinstance(offsets, list)
        and len(offsets) == 2
        and all(isinstance(offset, int) and offset >= 0 for offset in offsets)
        and "dtype" in value
    )
