"""`modelfleet lint -o sarif` and `-o json`: the same faults, for machines."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from api_cases import BAD, GOOD
from api_objects import CLASS, DEPLOYMENT, OBJECTIVE, Bad, changed
from modelfleet.cli.lint_rules import OTHER, all_rules, rule_of
from modelfleet.cli.main import main

Captured = pytest.CaptureFixture[str]
FAULTY = yaml.safe_dump_all(
    [dict(CLASS), changed(DEPLOYMENT, {"spec.scaling.minReplicas": 0, f"{OBJECTIVE}.e2eLatency": "5s"})]
)


def lint(capsys: Captured, output: str, *files: Path) -> tuple[int, Any]:
    status = main(["lint", "-o", output, *map(str, files)])
    return status, json.loads(capsys.readouterr().out)


@pytest.fixture
def faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with two faults, by a relative name with a space."""
    monkeypatch.chdir(tmp_path)
    path = Path("my file.yaml")
    path.write_text(FAULTY)
    return path


def line_of(path: Path, word: str) -> int:
    return next(number for number, line in enumerate(path.read_text().splitlines(), 1) if word in line)


def test_sarif_names_tool_rules_and_each_fault_with_its_place(capsys: Captured, faulty: Path) -> None:
    status, log = lint(capsys, "sarif", faulty)

    (run,) = log["runs"]
    driver, results = run["tool"]["driver"], run["results"]
    assert (status, log["version"], driver["name"]) == (1, "2.1.0", "modelfleet lint")
    assert [result["ruleId"] for result in results] == ["objective-refuses-e2e-latency", "zero-replicas-need-terms"]
    for result in results:
        rule = driver["rules"][result["ruleIndex"]]
        assert rule["id"] == result["ruleId"]
        assert rule["shortDescription"]["text"]
        assert rule["help"]["text"]
        assert result["level"] == rule["defaultConfiguration"]["level"] == "error"
    place = results[1]["locations"][0]
    assert place["physicalLocation"] == {
        "artifactLocation": {"uri": "my%20file.yaml"},
        "region": {"startLine": line_of(faulty, "minReplicas"), "startColumn": 5},
    }
    assert place["logicalLocations"][0]["fullyQualifiedName"] == "spec.scaling.minReplicas"
    assert results[1]["message"]["text"].startswith("spec.scaling.minReplicas: minReplicas 0 needs toZero")


def test_sarif_without_faults_has_no_results_and_succeeds(capsys: Captured, tmp_path: Path) -> None:
    path = tmp_path / "fine.yaml"
    path.write_text(yaml.safe_dump_all([case.manifest for case in GOOD]))

    status, log = lint(capsys, "sarif", path)

    assert (status, log["runs"][0]["results"]) == (0, [])
    assert log["runs"][0]["invocations"] == [
        {"executionSuccessful": True, "exitCode": 0, "toolExecutionNotifications": []}
    ]


def test_what_could_not_be_read_or_was_skipped_is_a_notification(capsys: Captured, tmp_path: Path) -> None:
    template = tmp_path / "template.yaml"
    template.write_text("a: {{ .Values.a }}\n")

    status, log = lint(capsys, "sarif", template, tmp_path / "absent.yaml")

    (invocation,) = log["runs"][0]["invocations"]
    assert (status, invocation["executionSuccessful"], invocation["exitCode"]) == (2, False, 2)
    notes = invocation["toolExecutionNotifications"]
    assert [note["level"] for note in notes] == ["note", "error"]
    assert "Helm template" in notes[0]["message"]["text"]
    assert "no such file or directory" in notes[1]["message"]["text"]


def test_sarif_has_what_the_standard_requires_everywhere(capsys: Captured, faulty: Path) -> None:
    """Sections 3.13.2, 3.14.6, 3.19.2, 3.27.11, 3.30.5 and 3.49.3 of SARIF 2.1.0."""
    _, log = lint(capsys, "sarif", faulty)

    assert log["$schema"].endswith("sarif-schema-2.1.0.json")
    assert set(log) == {"$schema", "version", "runs"}
    (run,) = log["runs"]
    assert run["columnKind"] in ("unicodeCodePoints", "utf16CodeUnits")
    ids = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert ids == sorted(set(ids))
    for result in run["results"]:
        assert {"message", "ruleId", "ruleIndex", "level", "locations"} == set(result)
        region = result["locations"][0]["physicalLocation"]["region"]
        assert min(region["startLine"], region["startColumn"]) >= 1
        assert not re.search(r"[ \\]", result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])


def test_json_has_every_fault_with_rule_level_place_and_help(capsys: Captured, faulty: Path) -> None:
    status, told = lint(capsys, "json", faulty)

    assert (status, told["objects"], told["skipped"], told["unreadable"]) == (1, 2, [], [])
    first, second = told["findings"]
    assert (first["rule"], first["field"]) == ("objective-refuses-e2e-latency", "spec.objectives[0].e2eLatency")
    assert second["level"] == "error"
    assert (second["file"], second["line"]) == ("my file.yaml", line_of(faulty, "minReplicas"))
    assert second["help"]


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.id)
def test_every_sentence_of_the_table_belongs_to_a_rule_with_a_name(case: Bad) -> None:
    rule = rule_of(case.says)

    assert rule.id != OTHER
    assert rule in all_rules()


def test_a_rule_s_name_is_lower_case_words() -> None:
    assert [rule.id for rule in all_rules() if not re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", rule.id)] == []


def test_two_rules_with_one_sentence_share_a_name() -> None:
    assert rule_of("p50 must not be above p95").id == "p50-up-to-p95"
