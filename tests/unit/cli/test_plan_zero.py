"""`modelfleet plan -f` of a model that goes to zero: which pauses are worth a start."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from test_plan_manifest import DEPLOYMENT

from api_objects import changed
from modelfleet.cli.main import main

ZERO = {
    "spec.scaling.minReplicas": 0,
    "spec.scaling.toZero": {"after": "15m", "firstCallerWaits": "3m"},
    "spec.objectives.0.firstCaller": "Excused",
    "spec.model.source": "pvc://weights/Llama-3.1-8B-Instruct",
}


def printed(capsys: pytest.CaptureFixture[str], tmp_path: Path, **status: Any) -> str:
    asked = changed(DEPLOYMENT, ZERO) | ({"status": status} if status else {})
    path = tmp_path / "chat.yaml"
    path.write_text(yaml.safe_dump(asked))
    assert main(["plan", "-f", str(path), "--model", "meta-llama/Llama-3.1-8B-Instruct"]) == 0
    return " ".join(capsys.readouterr().out.partition("To zero")[2].split())


def test_before_a_start_was_measured_none_is_assumed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    said = printed(capsys, tmp_path)

    assert "A pause longer than 15 min and a start saves 1 accelerator" in said
    assert "nothing is assumed here" in said


def test_a_saved_live_object_brings_what_was_measured(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    cold = {"class": "h100-sxm", "starts": 3, "p50Seconds": 170, "p90Seconds": 190, "phases": []}
    said = printed(capsys, tmp_path, coldStart=cold)

    assert "A pause longer than 17 min 50 s saves 1 accelerator" in said
    assert "more than firstCallerWaits (3 min)" in said


def test_a_model_that_keeps_a_replica_is_told_nothing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "chat.yaml"
    path.write_text(yaml.safe_dump(DEPLOYMENT))
    main(["plan", "-f", str(path), "--model", "meta-llama/Llama-3.1-8B-Instruct"])

    assert "To zero" not in capsys.readouterr().out
