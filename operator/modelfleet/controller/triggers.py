"""The seam between what notices a change and what acts on it: keys. Pure."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, order=True)
class Key:
    """One ModelDeployment."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Triggers(Protocol):
    """Whoever watches the cluster calls this, and nothing else. Safe to call from any thread."""

    def add(self, key: Key) -> None:
        """Have the key looked at soon. Calling it too often costs a little, never correctness."""

    def add_all(self) -> None:
        """Have every known key looked at soon: something that any of them may depend on has changed."""
