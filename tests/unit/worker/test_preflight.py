"""What is found wrong before an engine is started."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from modelfleet_worker.failure import Reason
from modelfleet_worker.plan import Limits, Plan
from modelfleet_worker.preflight import check
from weight_servers import tensors


def plan(folder: Path) -> Plan:
    limits = Limits(start_deadline_s=1, drain_s=1, propagation_s=1)
    return Plan(revision="", model_path=str(folder), served_names=("m",), python=None, args=(), env={}, limits=limits)


def _nothing(folder: Path) -> None:
    (folder.parent / "other").mkdir()


def _a_file(folder: Path) -> None:
    folder.touch()


def _no_config(folder: Path) -> None:
    folder.mkdir()
    for number in range(10):
        (folder / f"part-{number}").touch()


def _no_json(folder: Path) -> None:
    folder.mkdir()
    (folder / "config.json").write_text("version https://git-lfs")


def _no_text(folder: Path) -> None:
    folder.mkdir()
    (folder / "config.json").write_bytes(b"\xff\xfe")


def _a_folder_for_config(folder: Path) -> None:
    (folder / "config.json").mkdir(parents=True)


@pytest.mark.parametrize(
    ("make", "reason", "says"),
    [
        pytest.param(_nothing, Reason.MODEL_NOT_FOUND, "holds other", id="no folder: what is beside it"),
        pytest.param(_a_file, Reason.MODEL_NOT_FOUND, "cannot be read", id="a file in its place"),
        pytest.param(_no_config, Reason.MODEL_NOT_FOUND, "part-7 and 2 more", id="no config: what is there"),
        pytest.param(_a_folder_for_config, Reason.MODEL_NOT_FOUND, "Is a directory", id="config is a folder"),
        pytest.param(_no_json, Reason.MODEL_REFUSED, "is not valid JSON", id="config is no JSON"),
        pytest.param(_no_text, Reason.MODEL_REFUSED, "it is not text", id="config is no text"),
    ],
)
def test_a_model_that_cannot_be_served(tmp_path: Path, make: Callable[[Path], None], reason: Reason, says: str) -> None:
    folder = tmp_path / "model"
    make(folder)
    failure = check(plan(folder), sys.executable)
    assert failure is not None
    assert (failure.reason, says in failure.message) == (reason, True), failure.message


def test_an_interpreter_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    failure = check(plan(tmp_path), str(tmp_path))
    assert failure is not None
    assert failure.reason is Reason.ENGINE_START_FAILED


def test_nothing_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert check(plan(tmp_path), sys.executable) is None


@pytest.mark.parametrize(
    ("files", "allowed", "refused"),
    [
        pytest.param(["pytorch_model.bin"], False, True, id="pickles alone"),
        pytest.param(["pytorch_model.bin"], True, False, id="pickles that are allowed"),
        pytest.param(["pytorch_model.bin", "model.safetensors"], False, False, id="pickles beside safetensors"),
    ],
)
def test_pickles(tmp_path: Path, files: list[str], allowed: bool, refused: bool) -> None:
    (tmp_path / "config.json").write_text("{}")
    for name in files:
        (tmp_path / name).write_bytes(tensors(1, 8) if name.endswith(".safetensors") else b"pickle")
    failure = check(replace(plan(tmp_path), pickled=allowed), sys.executable)
    assert (failure is not None) is refused
    if failure is not None:
        assert failure.reason is Reason.MODEL_REFUSED
        assert "pytorch_model.bin" in failure.message
        assert "spec.model.pickledWeights: Allow" in failure.remedy
