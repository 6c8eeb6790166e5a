"""`modelfleet lint`: what the API server and the operator would say about files, before they are applied."""

import argparse
import difflib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modelfleet.api import names
from modelfleet.api.acceleratorclass import AcceleratorClass
from modelfleet.api.modeldeployment import ModelDeployment
from modelfleet.api.modelprofile import ModelProfile
from modelfleet.api.parse import Fault, Place, strict_faults
from modelfleet.cli.yaml_io import Document, MissingExtraError, UnreadableError, documents

_STDIN = "-"


def register(commands: Any) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser("lint", help="check files with objects of modelfleet")
    parser.add_argument("files", nargs="+", metavar="FILE", help="a YAML file; - is standard input")
    parser.set_defaults(run=run)


@dataclass
class _Tally:
    checked: int = 0
    faults: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)


def run(arguments: argparse.Namespace) -> int:
    """Prints one line a fault. 0: all is fine; 1: there are faults; 2: a file could not be read."""
    tally = _Tally()
    try:
        for name in arguments.files:
            _check_file(name, tally)
    except MissingExtraError as error:
        print(f"modelfleet: {error}", file=sys.stderr)
        return 2
    for line in tally.faults:
        print(line)
    for line in tally.unreadable:
        print(f"modelfleet: {line}", file=sys.stderr)
    if tally.unreadable:
        return 2
    if tally.faults:
        return 1
    print(_praise(tally.checked))
    return 0


def _praise(checked: int) -> str:
    if not checked:
        return f"nothing to check: no {names.DEPLOYMENT_KIND}, {names.CLASS_KIND} or {names.PROFILE_KIND} here"
    return f"{checked} objects are fine" if checked > 1 else "1 object is fine"


def _check_file(name: str, tally: _Tally) -> None:
    shown = "<stdin>" if name == _STDIN else name
    try:
        for document in documents(_read(name)):
            for place, content in _objects(document.content, ()):
                _check_object(shown, document, place, content, tally)
    except UnreadableError as error:
        tally.unreadable.append(f"{shown}: {error}")


def _read(name: str) -> str:
    try:
        raw = sys.stdin.buffer.read() if name == _STDIN else Path(name).read_bytes()
        return raw.decode()
    except UnicodeDecodeError as error:
        raise UnreadableError("it is not UTF-8 text") from error
    except OSError as error:
        raise UnreadableError((error.strerror or str(error)).lower()) from error


def _objects(content: Any, place: Place) -> Iterator[tuple[Place, Any]]:
    """The objects of a document; a List holds several."""
    if isinstance(content, Mapping) and content.get("kind") == "List" and isinstance(content.get("items"), list):
        for index, item in enumerate(content["items"]):
            yield from _objects(item, (*place, "items", index))
    elif content is not None:
        yield place, content


def _check_object(shown: str, document: Document, place: Place, content: Any, tally: _Tally) -> None:
    faults = _faults(content)
    if faults is None:
        return
    tally.checked += 1
    for fault in faults:
        tally.faults.append(f"{shown}:{document.line((*place, *fault.place))}: {fault}")


def _faults(content: Any) -> tuple[Fault, ...] | None:
    """The faults of an object; None if it is not one of ours."""
    if not isinstance(content, Mapping):
        return (Fault((), "this is not a Kubernetes object: it needs apiVersion, kind, metadata and spec"),)
    group = str(content.get("apiVersion", "")).partition("/")[0]
    kind = content.get("kind")
    models = (names.DEPLOYMENT_KIND, names.CLASS_KIND, names.PROFILE_KIND)
    if "apiVersion" not in content and kind is None and content.keys() & {"metadata", "spec"}:
        return (Fault((), "this object does not say what it is: it needs apiVersion and kind"),)
    if "apiVersion" not in content and kind in models:
        return (Fault(("apiVersion",), f"is required: {names.API_VERSION}"),)
    if group != names.GROUP:
        return None
    if content["apiVersion"] != names.API_VERSION:
        return (Fault(("apiVersion",), f"{content['apiVersion']} is not served, write {names.API_VERSION}"),)
    if kind == names.DEPLOYMENT_KIND:
        return strict_faults(ModelDeployment, content)
    if kind == names.CLASS_KIND:
        return strict_faults(AcceleratorClass, content)
    if kind == names.PROFILE_KIND:
        return strict_faults(ModelProfile, content)
    near = difflib.get_close_matches(str(kind), models, n=1, cutoff=0.5) or list(models)
    return (Fault(("kind",), f"there is no kind {kind} in {names.API_VERSION}, did you mean {' or '.join(near)}?"),)
