"""The other commands, and that the installed command is the same."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from modelfleet.api import crd
from modelfleet.cli.main import main

COMMAND = Path(sys.executable).with_name("modelfleet")


def test_version_names_the_program_and_the_api(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert capsys.readouterr().out == f"modelfleet {version('modelfleet')} (modelfleet.dev/v1alpha1)\n"


def test_crds_prints_all_definitions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crds"]) == 0
    assert list(yaml.safe_load_all(capsys.readouterr().out)) == [crd.crd(kind) for kind in crd.KINDS]


def test_crds_writes_a_file_a_definition_and_the_same_again(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"

    assert main(["crds", "--output", str(folder)]) == 0
    first = {path.name: path.read_text() for path in folder.iterdir()}
    assert main(["crds", "--output", str(folder)]) == 0

    assert first.keys() == {kind.file_name for kind in crd.KINDS}
    assert {path.name: path.read_text() for path in folder.iterdir()} == first


def test_crds_says_why_a_folder_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()

    assert main(["crds", "--output", str(tmp_path / "file")]) == 2
    assert capsys.readouterr().err.startswith("modelfleet: ")


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["lint"]])
def test_a_wrong_command_shows_how_to_write_it(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)

    assert exit_.value.code == 2
    assert capsys.readouterr().err.startswith("usage: modelfleet")


def test_the_installed_command_gives_the_exit_status() -> None:
    done = subprocess.run([COMMAND, "lint", "/nonexistent"], capture_output=True, text=True)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "modelfleet: /nonexistent: no such file or directory\n"


def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    done = subprocess.run(
        ["bash", "-c", f"{COMMAND} crds | head -c 10; exit ${{PIPESTATUS[0]}}"], capture_output=True, text=True
    )

    assert (done.returncode, done.stderr) == (0, "")
