"""Typed reading of a config.json: each key is checked, and what is wrong is said with the key's path. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MOST = 10**9
"""No size in a config.json is larger: the longest context in use is 10,485,760 tokens."""

_REQUIRED = object()


class ConfigError(ValueError):
    """A config.json that cannot be sized. The text is one sentence with the key's path."""


def shown(value: object) -> str:
    """A value as messages quote it, never longer than a line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


@dataclass(frozen=True)
class Keys:
    """One level of a config.json. `path` is where it is, empty at the top; `name` is the model's, for messages."""

    values: Mapping[str, Any]
    name: str
    path: str = ""
    above: "Keys | None" = field(default=None, repr=False)
    """Where a key is looked up when this level has none: transformers moves keys between text_config and the top."""

    @classmethod
    def of(cls, values: object, name: str) -> "Keys":
        """The top level of a config.json."""
        if not isinstance(values, Mapping):
            raise ConfigError(f"config.json of {name} is {shown(values)}: an object with the model's sizes is needed")
        return cls(values, name)

    def error(self, key: str, problem: str) -> ConfigError:
        """A ConfigError about one key of this level."""
        return ConfigError(f"config.json of {self.name}: {self.path}{key} {problem}")

    def has(self, key: str) -> bool:
        """Whether the key has a value that is not null."""
        return self._find(key)[1] is not None

    def inner(self, key: str) -> "Keys | None":
        """A nested object, or None where there is none."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self.error(key, f"is {shown(value)}: an object is needed")
        return Keys(value, self.name, f"{self.path}{key}.", above=self)

    def size(self, *keys: str, least: int = 1, most: int = MOST, default: Any = _REQUIRED) -> int:
        """A whole number, from the first of `keys` that has a value; without `default` one of them is required."""
        for key in keys:
            level, value = self._find(key)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise level.error(key, f"is {shown(value)}: a whole number from {least:,} to {most:,} is needed")
            return value
        if default is _REQUIRED:
            raise self.error(keys[0], "is missing: the model cannot be sized without it")
        return int(default)

    def flag(self, key: str, *, default: bool = False) -> bool:
        """true or false."""
        level, value = self._find(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise level.error(key, f"is {shown(value)}: true or false is needed")
        return value

    def text(self, key: str) -> str | None:
        """A string, or None where there is none."""
        level, value = self._find(key)
        if value is not None and not isinstance(value, str):
            raise level.error(key, f"is {shown(value)}: a string is needed")
        return value

    def number(self, key: str, *, least: float, most: float, default: float) -> float:
        """A number that may have a fraction."""
        level, value = self._find(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise level.error(key, f"is {shown(value)}: a number from {least:g} to {most:g} is needed")
        return float(value)

    def strings(self, key: str) -> tuple[str, ...] | None:
        """A list of strings, or None where there is none."""
        items = self._items(key)
        if items is None:
            return None
        for index, item in enumerate(items):
            if not isinstance(item, str):
                raise self.error(f"{key}[{index}]", f"is {shown(item)}: a string is needed")
        return tuple(items)

    def numbers(self, key: str) -> tuple[int, ...] | None:
        """A list of whole numbers from 0, or None where there is none."""
        items = self._items(key)
        if items is None:
            return None
        for index, item in enumerate(items):
            if isinstance(item, bool) or not isinstance(item, int) or not 0 <= item <= MOST:
                raise self.error(f"{key}[{index}]", f"is {shown(item)}: a whole number from 0 is needed")
        return tuple(items)

    def _items(self, key: str) -> Sequence[Any] | None:
        level, value = self._find(key)
        if value is None:
            return None
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise level.error(key, f"is {shown(value)}: a list is needed")
        return value

    def _find(self, key: str) -> "tuple[Keys, Any]":
        value = self.values.get(key)
        if value is None and self.above is not None:
            level, found = self.above._find(key)
            if found is not None:
                return level, found
        return self, value
