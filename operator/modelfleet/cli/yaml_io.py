"""YAML and JSON in, YAML out: objects with the lines that their fields stand on, and manifests in a stable form."""

import io
import json
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from modelfleet.api.parse import Place

_NO_TEXT_IN_1_1 = re.compile(r"(?i)y|n|yes|no|on|off|[-+]?\d[\d_]*(:[0-5]?\d)+(\.[\d_]*)?|[-+]?0b?[01_]+|[-+]?\d[\d_]*")

MOST_BY_ALIASES = 100_000
"""Values that aliases may add to a document: far more than a manifest has, and few enough to be read at once."""


class UnreadableError(Exception):
    """A text that is not YAML or JSON; the message is a sentence for the user."""


class MissingExtraError(Exception):
    """A library of the extra `cli` is not installed; the message says how to get it."""

    def __init__(self, library: str = "ruamel.yaml") -> None:
        super().__init__(f"this command needs {library}: pip install 'modelfleet[cli]'")


@dataclass(frozen=True)
class Document:
    """A YAML document: `content` in plain Python values, and where its fields stand."""

    content: Any
    node: Any

    def line(self, place: Place) -> int:
        """The line, from 1, of the field at `place`, or of the nearest field above it that is there."""
        return self.position(place)[0]

    def position(self, place: Place) -> tuple[int, int]:
        """Line and column, from 1, as `line` gives the line."""
        node, (line, column) = self.node, _start(self.node)
        for step in place:
            try:
                line, column = node.lc.item(step) if isinstance(step, int) else node.lc.key(step)
                node = node[step]
            except (AttributeError, KeyError, IndexError, TypeError):
                break
        return line + 1, column + 1


def _start(node: Any) -> tuple[int, int]:
    marks = getattr(node, "lc", None)
    return getattr(marks, "line", 0) or 0, getattr(marks, "col", 0) or 0


def json_value(text: str | bytes) -> Any:
    """The value of a JSON text. Raises UnreadableError."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise UnreadableError("it is nested too deeply") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UnreadableError("it is not JSON") from error
    except ValueError as error:  # Python reads no whole number of more than 4,300 digits
        raise UnreadableError("it holds a number with too many digits") from error


def _yaml() -> Any:
    try:
        from ruamel.yaml import YAML
    except ImportError as error:
        raise MissingExtraError from error
    yaml = YAML()
    yaml.Composer = _composer()
    return yaml


def _composer() -> Any:
    """ruamel's, which refuses a document whose aliases multiply it before anything is made of it."""
    from ruamel.yaml.composer import Composer

    class Bounded(Composer):  # type: ignore[misc, unused-ignore]
        """Counts what aliases add."""

        def compose_document(self) -> Any:
            node = super().compose_document()
            sizes: dict[int, int] = {}
            if _expanded(node, sizes) - len(sizes) > MOST_BY_ALIASES:
                raise UnreadableError(
                    f"its aliases add more than {MOST_BY_ALIASES:,} values to it; write the values out, or use fewer"
                )
            return node

    return Bounded


def _expanded(node: Any, sizes: dict[int, int]) -> int:
    """How many values a composed node stands for, an alias as often as it is used. One in itself has no end."""
    found = sizes.get(id(node))
    if found is not None:
        return found
    sizes[id(node)] = MOST_BY_ALIASES << 64
    value = getattr(node, "value", None)
    parts = value if isinstance(value, list) else ()
    total = 1
    for part in parts:
        total += sum(_expanded(one, sizes) for one in (part if isinstance(part, tuple) else (part,)))
    sizes[id(node)] = total
    return total


def documents(text: str) -> Iterator[Document]:
    """The documents of a text, one after the other. Raises UnreadableError at the first that is not YAML."""
    yaml = _yaml()
    yaml.version = (1, 1)  # as kubectl reads: yes and no are truth values
    from ruamel.yaml.error import MantissaNoDotYAML1_1Warning, YAMLError

    warnings.simplefilter("ignore", MantissaNoDotYAML1_1Warning)  # 1e6 is a number to kubectl, too
    try:
        for node in yaml.load_all(text):
            yield Document(_plain(node), node)
    except YAMLError as error:
        raise UnreadableError(_sentence(error)) from error
    except RecursionError as error:
        raise UnreadableError("it is nested too deeply") from error
    except (ValueError, AttributeError, TypeError) as error:  # ruamel's own slips on odd tags and numbers
        raise UnreadableError(f"it is not YAML: {error}") from error


def _sentence(error: Exception) -> str:
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    mark = getattr(error, "problem_mark", None)
    where = f"line {mark.line + 1}: " if mark is not None else ""
    return f"{where}it is not YAML: {str(problem).strip()}"


def _plain(node: Any) -> Any:
    """ruamel's nodes as the plain values that JSON knows."""
    match node:
        case Mapping():
            return {_key(key): _plain(value) for key, value in node.items()}
        case list() | tuple() | set():
            return [_plain(item) for item in node]
        case str():
            return str(node)
        case None | bool():
            return node
        case int():
            return bool(node) if type(node).__name__ == "ScalarBoolean" else int(node)
        case float():
            return float(node)
        case datetime() | date():
            return node.isoformat()
    return str(node)


def _key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def dump(manifest: Mapping[str, Any]) -> str:
    """A manifest as YAML, in the order of its keys; the same bytes for the same manifest."""
    yaml = _yaml()
    yaml.Representer = _representer()
    yaml.width = 120
    yaml.indent(mapping=2, sequence=2, offset=0)
    stream = io.StringIO()
    yaml.dump(_plain(manifest), stream)
    return stream.getvalue()


def _representer() -> Any:
    """ruamel's, whose output means the same to readers of YAML 1.1: there `on` and 1:30 are no text, and a number with
    an exponent needs a point."""
    from ruamel.yaml.representer import RoundTripRepresenter

    class Representer(RoundTripRepresenter):  # type: ignore[misc, unused-ignore]
        """A registry of its own."""

    def number(representer: Any, value: float) -> Any:
        text = repr(value)
        text = text.replace("e", ".0e", 1) if "e" in text and "." not in text else text
        return representer.represent_scalar("tag:yaml.org,2002:float", text)

    def string(representer: Any, value: str) -> Any:
        style = "'" if _NO_TEXT_IN_1_1.fullmatch(value) else None
        return representer.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Representer.add_representer(float, number)
    Representer.add_representer(str, string)
    return Representer
