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

    def add(self, key: Key, *, behind: bool = False) -> None:
        """Have the key looked at soon. Calling it too often costs a little, never correctness.

        `behind`: after keys of which something changed. For what many keys are asked for at once, mostly in vain.
        """
