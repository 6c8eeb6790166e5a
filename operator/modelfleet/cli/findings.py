"""What is wrong with the objects in a text: each fault with its rule, line and column."""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from modelfleet.api import names
from modelfleet.api.crd import KINDS
from modelfleet.api.parse import Fault, Place, strict_faults
from modelfleet.cli.lint_rules import LintRule, rule_of
from modelfleet.cli.manifests import Source, expand, is_template, read
from modelfleet.cli.yaml_io import Document, UnreadableError, documents

LEVEL = "error"
"""The level of every finding: each of them keeps an object from being taken or accepted."""

TEMPLATE = "skipped, it is a Helm template; render it first: helm template CHART | modelfleet lint -"


@dataclass(frozen=True)
class Finding:
    """A fault in a file. `line` and `column` count from 1; `path` is the field, empty for the whole object."""

    rule: LintRule
    file: str
    line: int
    column: int
    path: str
    message: str

    @property
    def text(self) -> str:
        """The field and what is wrong with it."""
        return f"{self.path}: {self.message}" if self.path else self.message

    def __str__(self) -> str:
        """The line of a terminal: where it stands, what is wrong, and the rule."""
        return f"{self.file}:{self.line}:{self.column}: {self.text} [{self.rule.id}]"


@dataclass
class Report:
    """Everything that was found. `unreadable` and `skipped` hold a file's name and a sentence."""

    objects: int = 0
    findings: list[Finding] = field(default_factory=list)
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)

    @property
    def status(self) -> int:
        """The exit status: 0 all is fine, 1 there are faults, 2 a file could not be read."""
        return 2 if self.unreadable else 1 if self.findings else 0


def check(argument: str, report: Report, *, only_ours: bool = False) -> None:
    """Puts what is wrong with the files of an argument into the report. Raises MissingExtraError."""
    try:
        sources = list(expand(argument))
    except UnreadableError as error:
        report.unreadable.append((argument, str(error)))
        return
    for source in sources:
        found = Source(source.name, found=source.found or only_ours)
        try:
            _check_file(found, report)
        except UnreadableError as error:
            report.unreadable.append((found.shown, str(error)))


def _check_file(source: Source, report: Report) -> None:
    text = read(source)
    if text is None:
        return
    if is_template(source, text):
        report.skipped.append((source.shown, TEMPLATE))
        return
    for document in documents(text):
        check_document(source.shown, document, report, only_objects=source.found)


def check_document(shown: str, document: Document, report: Report, *, only_objects: bool) -> None:
    """Puts what is wrong with the objects of a document into the report; `only_objects` passes over what is none."""
    for place, content in _objects(document.content, ()):
        if isinstance(content, Mapping) or not only_objects:
            _check_object(shown, document, place, content, report)


def _objects(content: Any, place: Place) -> Iterator[tuple[Place, Any]]:
    """The objects of a document; a List holds several."""
    if isinstance(content, Mapping) and content.get("kind") == "List" and isinstance(content.get("items"), list):
        for index, item in enumerate(content["items"]):
            yield from _objects(item, (*place, "items", index))
    elif content is not None:
        yield place, content


def _check_object(shown: str, document: Document, place: Place, content: Any, report: Report) -> None:
    faults = _faults(content)
    if faults is None:
        return
    report.objects += 1
    for fault in faults:
        line, column = document.position((*place, *fault.place))
        report.findings.append(Finding(rule_of(fault.message), shown, line, column, fault.path, fault.message))


def _faults(content: Any) -> tuple[Fault, ...] | None:
    """The faults of an object; None if it is not one of ours."""
    if not isinstance(content, Mapping):
        return (Fault((), "this is not a Kubernetes object: it needs apiVersion, kind, metadata and spec"),)
    group = str(content.get("apiVersion", "")).partition("/")[0]
    kind = content.get("kind")
    models: dict[str, Any] = {one.model.__name__: one.model for one in KINDS}
    if "apiVersion" not in content and kind is None and content.keys() & {"metadata", "spec"}:
        return (Fault((), "this object does not say what it is: it needs apiVersion and kind"),)
    if "apiVersion" not in content and kind in models:
        return (Fault(("apiVersion",), f"is required: {names.API_VERSION}"),)
    if group != names.GROUP:
        return None
    if content["apiVersion"] != names.API_VERSION:
        return (Fault(("apiVersion",), f"{content['apiVersion']} is not served, write {names.API_VERSION}"),)
    if kind in models:
        return strict_faults(models[kind], content)
    near = difflib.get_close_matches(str(kind), models, n=1, cutoff=0.5) or list(models)
    return (Fault(("kind",), f"there is no kind {kind} in {names.API_VERSION}, did you mean {' or '.join(near)}?"),)
