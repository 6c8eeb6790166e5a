"""The tokens of callers that workers trust, as their SHA-256 sums. I/O: reads one file at the start."""

from hashlib import sha256
from pathlib import Path


def sums_of(path: str) -> tuple[str, ...]:
    """The sums of the tokens in a file, one a line; none for an empty path. ValueError: it cannot be read, or is empty.

    Two lines are there while a token is replaced by another.
    """
    if not path:
        return ()
    try:
        lines = Path(path).read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} cannot be read ({type(error).__name__})") from error
    if not lines:
        raise ValueError(f"{path} holds no token")
    return tuple(sha256(line.encode()).hexdigest() for line in lines)
