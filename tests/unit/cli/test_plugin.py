"""The kubectl plugin: kubectl's flags, and the answer to its completion. With the real kubectl: tests/apiserver."""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from modelfleet.cli import main as cli
from modelfleet.cli.plugin import main

Captured = pytest.CaptureFixture[str]
SAMPLES = Path(__file__).parents[3] / "deploy" / "samples"


def test_it_runs_our_commands_and_gives_their_exit_status(capsys: Captured, tmp_path: Path) -> None:
    assert main(["lint", str(SAMPLES)]) == 0
    assert main(["lint", str(tmp_path / "absent")]) == 2
    assert "no such file or directory" in capsys.readouterr().err


def test_its_usage_is_written_as_a_user_calls_it(capsys: Captured) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert capsys.readouterr().out.startswith("usage: kubectl modelfleet ")


@pytest.mark.parametrize(
    "argv",
    [
        pytest.param(["--context", "blue", "--kubeconfig", "k", "crds", "apply"], id="before the command"),
        pytest.param(["--context=blue", "--kubeconfig=k", "crds", "apply"], id="before, with ="),
        pytest.param(["crds", "apply", "--kubeconfig", "k", "--context", "blue"], id="behind the command"),
        pytest.param(["--kubeconfig=k", "crds", "apply", "--context=blue"], id="on both sides"),
    ],
)
def test_kubectl_s_flags_reach_a_command_that_talks_to_a_cluster(
    argv: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "another")
    reached: list[argparse.Namespace] = []

    class Commands:
        @staticmethod
        def register(commands: Any) -> None:
            apply = commands.add_parser("crds").add_subparsers().add_parser("apply")
            apply.add_argument("--context")
            apply.set_defaults(run=lambda arguments: reached.append(arguments) or 0)

    monkeypatch.setattr(cli, "COMMANDS", (Commands,))
    assert main(argv) == 0
    assert (reached[0].context, os.environ["KUBECONFIG"]) == ("blue", "k")


def test_a_flag_that_a_command_has_no_use_for_is_refused(capsys: Captured) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["--context=blue", "lint", str(SAMPLES)])
    assert exit_.value.code == 2
    assert "unrecognized arguments: --context=blue" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "first", "directive"),
    [
        pytest.param(["li"], "lint", ":4", id="a command"),
        pytest.param(["c"], "calibrate\tdrive one replica", ":4", id="commands, with what they do"),
        pytest.param(["lint", "-o", "sa"], "sarif", ":4", id="a value"),
        pytest.param(["lint", "sam"], "samples/", ":6", id="a folder, without a space behind it"),
        pytest.param(["lint", "none"], ":4", ":4", id="nothing"),
    ],
)
def test_kubectl_s_completion_is_answered_in_its_form(words: list[str], first: str, directive: str) -> None:
    program = Path(sys.executable).with_name("kubectl_complete-modelfleet")
    done = subprocess.run([program, *words], capture_output=True, text=True, cwd=SAMPLES.parent, check=True)

    lines = done.stdout.splitlines()
    assert lines[0].startswith(first)
    assert (lines[-1], done.stderr) == (directive, "")
