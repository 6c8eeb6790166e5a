"""Names of images as nodes list them. Pure.

A node's list is the kubelet's (`status.images`, 50 unless its configuration says otherwise), by full names.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from modelfleet.core import raw

_HUB = "docker.io"  # what a name without a registry means


def full_name(image: str) -> str:
    """The image's name as a node lists it: with its registry, and `latest` where it names neither tag nor digest."""
    head, slash, rest = image.partition("/")
    if not slash:
        image = f"{_HUB}/library/{image}"
    elif not (any(sign in head for sign in ".:") or head == "localhost"):
        image = f"{_HUB}/{head}/{rest}"
    last = image.rpartition("/")[2]
    return image if ":" in last or "@" in last else f"{image}:latest"


def images_of(node: Any) -> frozenset[str]:
    """The names that a raw node lists. Nodes share them, so each is in memory once."""
    return frozenset(_shared(name) for each in raw.items(node, "status", "images") for name in _names(each))


@lru_cache(maxsize=16384)
def _shared(name: str) -> str:
    return name


def _names(image: Mapping[str, Any]) -> list[str]:
    listed = image.get("names")
    return [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
