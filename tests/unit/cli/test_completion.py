"""Shell completion, in a real bash and by the protocol that the shells speak."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from modelfleet.cli.completion import SHELLS
from modelfleet.cli.main import COMMANDS, main

BIN = Path(sys.executable).parent
ENVIRONMENT = {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "HOME": "/nonexistent"}
COMMAND = "modelfleet"


def asked(line: str, shell: str, folder: Path) -> list[str]:
    """What the program answers a shell that asks how `line` could go on; on file descriptor 8, as shells want it."""
    question = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_SHELL": shell,
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_DFS": "\t",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    done = subprocess.run(
        ["bash", "-c", f"{COMMAND} 8>&1 9>/dev/null 1>/dev/null 2>&1"],
        env=ENVIRONMENT | question,
        capture_output=True,
        text=True,
        cwd=folder,
        check=True,
    )
    return [word.strip() for word in done.stdout.split("\n") if word.strip()]


def in_bash(line: str, folder: Path) -> list[str]:
    """What a real bash offers for `line` after it has read our code."""
    words = line.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    script = f"""
        source <({COMMAND} completion bash)
        COMP_LINE='{line}'; COMP_POINT={len(line)}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}
        function_name=$(complete -p {COMMAND} | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
        $function_name {COMMAND}
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "--norc", "-c", script], env=ENVIRONMENT, capture_output=True, text=True, cwd=folder, check=True
    )
    return sorted(word.strip() for word in done.stdout.splitlines() if word.strip())


def test_bash_completes_commands_options_their_values_and_files(tmp_path: Path) -> None:
    (tmp_path / "model.yaml").touch()

    assert "lint" in in_bash(f"{COMMAND} ", tmp_path)
    assert in_bash(f"{COMMAND} li", tmp_path) == ["lint"]
    assert in_bash(f"{COMMAND} lint --ou", tmp_path) == ["--output"]
    assert in_bash(f"{COMMAND} lint -o s", tmp_path) == ["sarif"]
    assert in_bash(f"{COMMAND} lint mod", tmp_path) == ["model.yaml"]
    assert in_bash(f"{COMMAND} completion f", tmp_path) == ["fish"]


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_is_answered(shell: str, tmp_path: Path) -> None:
    (answer,) = asked(f"{COMMAND} sch", shell, tmp_path)

    assert answer.startswith("schema")


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_gets_code_that_names_the_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0

    code = capsys.readouterr().out
    assert "_ARGCOMPLETE" in code
    assert {"bash": f"_python_argcomplete {COMMAND}", "zsh": f"#compdef {COMMAND}", "fish": f"--command {COMMAND}"}[
        shell
    ] in code


def test_a_shell_that_is_none_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["completion", "csh"])

    assert exit_.value.code == 2
    assert "csh" in capsys.readouterr().err


def test_nothing_is_answered_where_nobody_asks() -> None:
    done = subprocess.run([BIN / COMMAND, "version"], env=ENVIRONMENT, capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")
    assert len(COMMANDS) >= 5
