"""A lint report as SARIF 2.1.0 (OASIS), which code-scanning services and editors read. Pure."""

from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from modelfleet.cli.findings import LEVEL, Finding, Report
from modelfleet.cli.lint_rules import LintRule, all_rules

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def log(report: Report, version: str) -> dict[str, Any]:
    """The SARIF log of one run of the linter."""
    rules = all_rules()
    places = {rule.id: index for index, rule in enumerate(rules)}
    driver = {"name": "modelfleet lint", "version": version, "rules": [_rule(rule) for rule in rules]}
    notes = [_note(file, why, "note") for file, why in report.skipped]
    notes += [_note(file, why, "error") for file, why in report.unreadable]
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": not report.unreadable,
                "exitCode": report.status,
                "toolExecutionNotifications": notes,
            }
        ],
        "results": [_result(finding, places[finding.rule.id]) for finding in report.findings],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: LintRule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.summary},
        "help": {"text": rule.help},
        "defaultConfiguration": {"level": LEVEL},
    }


def _result(finding: Finding, rule_index: int) -> dict[str, Any]:
    where: dict[str, Any] = {
        "physicalLocation": {
            "artifactLocation": {"uri": _uri(finding.file)},
            "region": {"startLine": finding.line, "startColumn": finding.column},
        }
    }
    if finding.path:
        where["logicalLocations"] = [{"fullyQualifiedName": finding.path, "kind": "member"}]
    return {
        "ruleId": finding.rule.id,
        "ruleIndex": rule_index,
        "level": LEVEL,
        "message": {"text": finding.text},
        "locations": [where],
    }


def _note(file: str, why: str, level: str) -> dict[str, Any]:
    place = {"physicalLocation": {"artifactLocation": {"uri": _uri(file)}}}
    return {"level": level, "message": {"text": f"{file}: {why}"}, "locations": [place]}


def _uri(file: str) -> str:
    """A file's name as a URI reference, relative as the user wrote it, so that a service finds it in the repository."""
    path = PurePath(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())
