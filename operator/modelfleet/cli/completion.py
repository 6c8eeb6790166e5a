"""`modelfleet completion`: what a shell needs to complete our commands, by the library argcomplete."""

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Any

SHELLS = ("bash", "zsh", "fish")

_ASKED = "_ARGCOMPLETE"
_MISSING = "modelfleet: completion needs argcomplete: pip install 'modelfleet[cli]'"
_DESCRIPTION = """\
Prints the code that makes a shell complete our commands. For one session, and for every one:
  bash  source <(modelfleet completion bash)           # in ~/.bashrc
  zsh   source <(modelfleet completion zsh)            # in ~/.zshrc, after compinit
  fish  modelfleet completion fish | source            # in ~/.config/fish/config.fish
kubectl completes `kubectl modelfleet` by itself: kubectl_complete-modelfleet is installed beside us."""


class _Answered(Exception):  # noqa: N818 - not an error: argcomplete ends the process when it has answered
    """The library has written its answer."""


def register(commands: Any) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser(
        "completion",
        help="print the code that makes a shell complete our commands",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=SHELLS)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Prints the code; 2 without the library."""
    try:
        from argcomplete.shell_integration import shellcode
    except ImportError:
        print(_MISSING, file=sys.stderr)
        return 2
    print(shellcode(["modelfleet"], shell=arguments.shell))
    return 0


def offer(parser: argparse.ArgumentParser) -> None:
    """Answers a shell that asks for completions, and ends the process; does nothing otherwise."""
    if _ASKED in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser)


def candidates(parser: argparse.ArgumentParser, words: Sequence[str]) -> list[tuple[str, str]]:
    """What the last of the words (it may be empty) can become, each with its meaning or "". Changes the environment,
    which is how the library is asked."""
    import argcomplete

    line = " ".join([parser.prog.replace(" ", "-"), *(word.replace(" ", "\\ ") for word in words)])
    os.environ |= {
        _ASKED: "1",
        "_ARGCOMPLETE_SHELL": "fish",  # the form that has meanings
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_DFS": "\t",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    answer = io.StringIO()
    with contextlib.suppress(_Answered):
        argcomplete.autocomplete(parser, exit_method=_answered, output_stream=answer)
    lines = (line for line in answer.getvalue().split("\n") if line)
    return [(word.rstrip(" "), meaning) for word, _, meaning in (line.partition("\t") for line in lines)]


def _answered(_: int) -> None:
    raise _Answered
