"""Which files a user means by folders and patterns, and their text. I/O."""

import glob
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from modelfleet.api import names
from modelfleet.api.crd import KINDS
from modelfleet.cli.yaml_io import UnreadableError

STDIN = "-"
_SUFFIXES = {".yaml", ".yml", ".json"}
_OURS = tuple(word.encode() for word in (names.GROUP, *(kind.model.__name__ for kind in KINDS)))
_ACTION = re.compile(r"\{\{-?\s*([.$/]|(if|with|range|define|end|else|include|template|block|toYaml|required|tpl)\b)")
_BARE_ACTION = re.compile(r"^(\s*(- )?[\w./\"'-]+:\s+|\s*- |\s*)\{\{", re.MULTILINE)


@dataclass(frozen=True)
class Source:
    """A file to read; `found`: it was come upon in a folder, so that it may well be none of ours."""

    name: str
    found: bool = False

    @property
    def shown(self) -> str:
        """The name as it is told."""
        return "<stdin>" if self.name == STDIN else self.name


def expand(argument: str) -> Iterator[Source]:
    """The files of an argument: itself, those below a folder, those that a pattern matches. Raises UnreadableError."""
    path = Path(argument)
    if argument == STDIN or path.is_file():
        yield Source(argument)
    elif path.is_dir():
        yield from (Source(str(file), found=True) for file in sorted(path.rglob("*")) if _is_manifest(file, path))
    elif glob.has_magic(argument):
        matches = sorted(glob.glob(argument, recursive=True))
        if not matches:
            raise UnreadableError("no file matches this pattern")
        for match in matches:
            yield from expand(match) if Path(match).is_dir() else [Source(match, found=True)]
    else:
        yield Source(argument)  # reading it says why not


def read(source: Source) -> str | None:
    """The text; None if a file that was found says nothing of our kinds. Raises UnreadableError."""
    try:
        raw = sys.stdin.buffer.read() if source.name == STDIN else Path(source.name).read_bytes()
        if source.found and not any(word in raw for word in _OURS):
            return None
        return raw.decode()
    except UnicodeDecodeError as error:
        raise UnreadableError("it is not UTF-8 text") from error
    except OSError as error:
        raise UnreadableError((error.strerror or str(error)).lower()) from error


def is_template(source: Source, text: str) -> bool:
    """Whether a file is a Helm template and so no YAML yet: it has actions outside of quotes, or lies in a chart."""
    if not _ACTION.search(text):
        return False
    return _in_chart(Path(source.name)) or _BARE_ACTION.search(text) is not None


def _in_chart(path: Path) -> bool:
    return any(above.name == "templates" and (above.parent / "Chart.yaml").is_file() for above in path.parents)


def _is_manifest(file: Path, root: Path) -> bool:
    hidden = any(part.startswith(".") for part in file.relative_to(root).parts)
    return file.suffix in _SUFFIXES and not hidden and file.is_file()
