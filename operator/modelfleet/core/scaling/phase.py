"""When each of many models or pods does what takes long, or is looked at. Pure."""

from zlib import crc32


def phase(key: str, of: int) -> int:
    """Which of so many moments is this model's: models that were created together do not all do it in one tick."""
    return crc32(key.encode()) % of


def share(key: str) -> float:
    """At which part of an interval the moment of this key is, in [0, 1)."""
    return crc32(key.encode()) / 2**32
