"""Text for a terminal of any kind."""

import sys
from enum import StrEnum


class Output(StrEnum):
    """How a result is printed: a table to read, or one object for other programs."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


def show(text: str) -> None:
    """Prints text; marks that the terminal's encoding does not have become question marks."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding), end="" if text.endswith("\n") else "\n")
