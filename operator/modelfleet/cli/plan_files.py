"""The files that a plan is made from: objects of ours, a config.json, and the nodes there are."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modelfleet.api import names
from modelfleet.cli.fields import clipped
from modelfleet.cli.findings import Finding, Report, check_document
from modelfleet.cli.models import ModelError
from modelfleet.cli.plan_flags import AskError
from modelfleet.cli.yaml_io import Document, UnreadableError, documents, json_value
from modelfleet.core import raw
from modelfleet.core.layout.question import NodeRoom
from modelfleet.core.model.config import ConfigError, read_config
from modelfleet.core.model.facts import ModelFacts

_STDIN = "-"
_LARGEST_BYTES = 64 << 20
_PROFILE_KIND = "ModelProfile"

Raw = Mapping[str, Any]


class RefusedError(AskError):
    """Objects that the API server would refuse or cut; the message has a line a fault, as `modelfleet lint` has."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__("\n".join(map(str, findings)))


@dataclass(frozen=True)
class Listed:
    """A line of a short list of nodes."""

    class_name: str
    rooms: tuple[NodeRoom, ...]


@dataclass
class Files:
    """What was found in the files. `nodes` are raw Nodes, `listed` a short list; both None without --nodes."""

    deployment: Raw | None = None
    shown: str = ""
    """Where the deployment stands, for messages."""
    classes: dict[str, Raw] = field(default_factory=dict)
    profiles: list[Raw] = field(default_factory=list)
    config: Raw | None = None
    config_name: str = ""
    config_source: str = ""
    nodes: tuple[Raw, ...] | None = None
    listed: tuple[Listed, ...] | None = None

    def config_facts(self) -> ModelFacts:
        """The facts of the config.json among the files. Raises ModelError."""
        try:
            return read_config(self.config or {}, name=self.config_name, source=self.config_source)
        except ConfigError as error:
            raise ModelError(str(error)) from error

    def rooms(self, class_name: str, labels: Mapping[str, str], resource: str) -> tuple[NodeRoom, ...] | None:
        """The nodes of a class, from a short list or by their labels; None if no nodes were given."""
        if self.nodes is not None:
            return tuple(_rooms_by_labels(self.nodes, labels, resource))
        return None if self.listed is None else rooms_of(self.listed, class_name)


def _rooms_by_labels(nodes: Sequence[Raw], labels: Mapping[str, str], resource: str) -> Iterator[NodeRoom]:
    for node in nodes:
        count = str(raw.mapping(node, "status", "allocatable").get(resource, ""))
        has = labels.items() <= raw.mapping(node, "metadata", "labels").items()
        if has and count.isdecimal() and int(count) and raw.at(node, "spec", "unschedulable") is not True:
            yield NodeRoom(name=raw.text(node, "metadata", "name"), total=int(count), free=int(count))


def rooms_of(listed: Sequence[Listed], class_name: str) -> tuple[NodeRoom, ...]:
    """The rooms of one class in a short list."""
    return tuple(room for line in listed if line.class_name == class_name for room in line.rooms)


def read_files(paths: Sequence[str], nodes: str | None, *, saved: bool = False) -> Files:
    """Everything in the files. Objects that were `saved` from a cluster were accepted once and are not checked.

    Raises UnreadableError, AskError and RefusedError.
    """
    found = Files()
    report = Report()
    for path in paths:
        shown = "<stdin>" if path == _STDIN else path
        for document in _documents(path, shown, lines=True):
            if not saved:
                check_document(shown, document, report, only_objects=True)
            _take(found, document.content, shown)
    faults = [one for one in report.findings if one.path.partition(".")[0] != "status"]  # it is not the user's
    if faults:
        raise RefusedError(faults)
    if nodes is not None:
        _take_nodes(found, [document.content for document in _documents(nodes, nodes, lines=False)], nodes)
    return found


def contents(path: str) -> Iterator[Any]:
    """What a file holds that was saved from a cluster, the items of lists one by one. Raises UnreadableError."""
    for document in _documents(path, "<stdin>" if path == _STDIN else path, lines=False):
        yield from _flat(document.content)


def _flat(content: Any) -> Iterator[Any]:
    if (
        isinstance(content, Mapping)
        and str(content.get("kind", "")).endswith("List")
        and isinstance(content.get("items"), list)
    ):
        for item in content["items"]:
            yield from _flat(item)
        return
    yield content


def _documents(path: str, shown: str, *, lines: bool) -> Iterator[Document]:
    """The documents of a file. JSON is read as YAML where objects of ours need `lines`: that is far slower."""
    text = _text(path, shown)
    try:
        content = json_value(text)
        if not (lines and isinstance(content, Mapping) and "apiVersion" in content):
            yield Document(content, None)
            return
    except UnreadableError:
        pass
    try:
        yield from documents(text)
    except UnreadableError as error:
        raise UnreadableError(f"{shown}: {error}") from error


def _text(path: str, shown: str) -> str:
    try:
        found = sys.stdin.buffer.read(_LARGEST_BYTES + 1) if path == _STDIN else _file(path)
        if len(found) > _LARGEST_BYTES:
            raise UnreadableError(f"{shown}: it is larger than {_LARGEST_BYTES >> 20} MiB")
        return found.decode()
    except UnicodeDecodeError as error:
        raise UnreadableError(f"{shown}: it is not UTF-8 text") from error
    except (OSError, ValueError) as error:
        raise UnreadableError(f"{shown}: {(getattr(error, 'strerror', None) or str(error)).lower()}") from error


def _file(path: str) -> bytes:
    with Path(path).open("rb") as stream:
        return stream.read(_LARGEST_BYTES + 1)


def _take(found: Files, content: Any, shown: str) -> None:
    if content is None:
        return
    if not isinstance(content, Mapping):
        raise AskError(f"{shown}: it holds neither a ModelDeployment nor a config.json")
    if content.get("kind") == "List" and isinstance(content.get("items"), list):
        for item in content["items"]:
            _take(found, item, shown)
        return
    kind = content.get("kind")
    if str(content.get("apiVersion", "")).partition("/")[0] == names.GROUP:
        _take_ours(found, content, kind, shown)
    elif "apiVersion" not in content and content.keys() & {"model_type", "architectures"}:
        found.config, found.config_source = content, shown
        path = Path(shown)
        found.config_name = path.resolve().parent.name if path.name == "config.json" else path.stem
    elif "apiVersion" not in content:
        raise AskError(
            f"{shown}: it is neither an object of {names.GROUP} (no apiVersion) nor a config.json (no model_type)"
        )


def _take_ours(found: Files, content: Raw, kind: Any, shown: str) -> None:
    if kind == names.DEPLOYMENT_KIND:
        if found.deployment is not None:
            raise AskError(f"{shown}: there is more than one {kind}; plan one at a time")
        found.deployment, found.shown = content, shown
    elif kind == names.CLASS_KIND:
        metadata = content.get("metadata")
        name = metadata.get("name") if isinstance(metadata, Mapping) else None
        if not isinstance(name, str):
            raise AskError(f"{shown}: metadata.name of an {kind} is missing; give it one")
        found.classes[name] = content
    elif kind == _PROFILE_KIND:
        found.profiles.append(content)


def _take_nodes(found: Files, contents: list[Any], shown: str) -> None:
    for content in contents:
        if isinstance(content, list):
            lines = tuple(_listed(line, index, shown) for index, line in enumerate(content))
            found.listed = (*(found.listed or ()), *lines)
        elif isinstance(content, Mapping) and isinstance(content.get("items"), list):
            nodes = tuple(item for item in content["items"] if isinstance(item, Mapping))
            found.nodes = (*(found.nodes or ()), *nodes)
        elif isinstance(content, Mapping) and content.get("kind") == "Node":
            found.nodes = (*(found.nodes or ()), content)
        elif content is not None:
            raise AskError(
                f"{shown}: it holds no nodes; give `kubectl get nodes -o json`, or a list such as"
                " [{class: h100-sxm, count: 2, accelerators: 8}]"
            )
    if found.nodes is None and found.listed is None:
        found.listed = ()


def _listed(line: Any, index: int, shown: str) -> Listed:
    if not isinstance(line, Mapping) or not isinstance(line.get("class"), str):
        raise AskError(f"{shown}: [{index}] needs a class, such as {{class: h100-sxm, count: 2, accelerators: 8}}")
    known = {"class", "count", "accelerators", "free", "name"}
    unknown = sorted(str(key) for key in line.keys() - known)
    if unknown:
        raise AskError(f"{shown}: [{index}].{unknown[0]} is unknown; there are class, count, accelerators, free, name")
    total = _whole(line, "accelerators", 8, index, shown, least=1)
    free = _whole(line, "free", total, index, shown, least=0)
    count = _whole(line, "count", 1, index, shown, least=0)
    if free > total:
        raise AskError(f"{shown}: [{index}].free is {free}, more than the node's {total} accelerators")
    name = str(line.get("name", f"{line['class']}-{index}"))
    rooms = tuple(NodeRoom(name=f"{name}-{number}", total=total, free=free) for number in range(count))
    return Listed(line["class"], rooms)


def _whole(line: Raw, key: str, default: int, index: int, shown: str, *, least: int) -> int:
    value = line.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 100_000:
        said = clipped(str(value))
        raise AskError(f"{shown}: [{index}].{key} is {said}; write a whole number from {least} to 100000")
    return value
