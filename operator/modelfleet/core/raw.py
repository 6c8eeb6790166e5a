"""Reads raw API objects without trusting their shape: what is missing or of another type reads as empty. Pure."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

_MAPPINGS = (dict, Mapping)  # almost all are dicts, which are told at once; an abstract class is asked at length


def at(raw: Any, *path: str) -> Any:
    """The value under `path`, or None where any step is missing or not a mapping."""
    for key in path:
        if not isinstance(raw, _MAPPINGS):
            return None
        raw = raw.get(key)
    return raw


def mapping(raw: Any, *path: str) -> Mapping[str, Any]:
    """The mapping under `path`; empty where there is none."""
    value = at(raw, *path)
    return value if isinstance(value, _MAPPINGS) else {}


def text(raw: Any, *path: str) -> str:
    """The string under `path`; empty where there is none."""
    value = at(raw, *path)
    return value if isinstance(value, str) else ""


def integer(raw: Any, *path: str, default: int = 0) -> int:
    """The integer under `path`; `default` where there is none (a boolean is none)."""
    value = at(raw, *path)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def items(raw: Any, *path: str) -> Iterator[Mapping[str, Any]]:
    """The mappings in the list under `path`; whatever else the list holds is passed over."""
    value = at(raw, *path)
    return (item for item in (value if isinstance(value, list | tuple) else ()) if isinstance(item, _MAPPINGS))


def instant(raw: Any, *path: str) -> datetime | None:
    """The RFC 3339 time under `path`; None where there is none or it cannot be read. Without a zone it is UTC."""
    try:
        read = datetime.fromisoformat(text(raw, *path))
    except ValueError:
        return None
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def name(raw: Any) -> str:
    """`metadata.name`."""
    return text(raw, "metadata", "name")


def uid(raw: Any) -> str:
    """`metadata.uid`."""
    return text(raw, "metadata", "uid")


def controller(raw: Any) -> Mapping[str, Any]:
    """The owner reference that says `controller: true`; empty where there is none."""
    return next((ref for ref in items(raw, "metadata", "ownerReferences") if ref.get("controller") is True), {})
