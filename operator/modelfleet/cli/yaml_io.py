"""YAML in and out: objects with the lines that their fields stand on, and manifests in a stable form."""

import io
import re
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from modelfleet.api.parse import Place

_NO_TEXT_IN_1_1 = re.compile(r"(?i)y|n|yes|no|on|off|[-+]?\d[\d_]*(:[0-5]?\d)+(\.[\d_]*)?|[-+]?0b?[01_]+|[-+]?\d[\d_]*")


class UnreadableError(Exception):
    """A text that is not YAML; the message is a sentence for the user."""


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
        node, line = self.node, _start(self.node)
        for step in place:
            try:
                line = node.lc.item(step)[0] if isinstance(step, int) else node.lc.key(step)[0]
                node = node[step]
            except (AttributeError, KeyError, IndexError, TypeError):
                break
        return line + 1


def _start(node: Any) -> int:
    return getattr(getattr(node, "lc", None), "line", 0) or 0


def _yaml() -> Any:
    try:
        from ruamel.yaml import YAML
    except ImportError as error:
        raise MissingExtraError from error
    return YAML()


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
