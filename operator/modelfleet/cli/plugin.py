"""`kubectl modelfleet`: our commands as a kubectl plugin, with kubectl's flags and in kubectl's completion.

kubectl runs `kubectl-modelfleet ARGUMENT…`, and asks `kubectl_complete-modelfleet WORD…` for completions. The answer is
a line each (the word, a tab, its meaning) and last a directive (cobra's ShellCompDirective).
"""

import os
import sys
from collections.abc import Sequence

from modelfleet.cli import completion
from modelfleet.cli.main import main as modelfleet
from modelfleet.cli.main import parser

PROGRAM = "kubectl modelfleet"
_FLAGS = {"--kubeconfig", "--context", "--namespace", "-n"}
_KUBECONFIG = "--kubeconfig"
_NO_SPACE, _NO_FILES = 2, 4


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and gives its exit status, as `modelfleet` does.

    kubectl's users write its flags anywhere. --kubeconfig is handed on as KUBECONFIG, which everything of ours reads;
    --context and --namespace go behind the command, which knows them if it talks to a cluster.
    """
    kubeconfig, arguments = _taken_out(list(sys.argv[1:] if argv is None else argv))
    if kubeconfig is not None:
        os.environ["KUBECONFIG"] = kubeconfig
    return modelfleet(_behind(arguments), PROGRAM)


def complete(argv: Sequence[str] | None = None) -> int:
    """Answers kubectl's question for completions; nothing if the library is not there."""
    words = list(sys.argv[1:] if argv is None else argv) or [""]
    directive = _NO_FILES
    try:
        found = completion.candidates(parser(PROGRAM), words)
    except ImportError:
        found = []
    for word, meaning in found:
        print(f"{word}\t{meaning}" if meaning else word)
    if len(found) == 1 and found[0][0].endswith(("/", "=")):
        directive |= _NO_SPACE
    print(f":{directive}")
    return 0


def _taken_out(arguments: list[str]) -> tuple[str | None, list[str]]:
    """The value of --kubeconfig, and the other arguments."""
    value, rest = None, []
    words = iter(arguments)
    for word in words:
        flag, given, inline = word.partition("=")
        if flag == _KUBECONFIG:
            value = inline if given else next(words, "")
        else:
            rest.append(word)
    return value, rest


def _behind(arguments: list[str]) -> list[str]:
    """The arguments with flags of kubectl that stand before the command behind it."""
    front: list[str] = []
    while arguments and arguments[0].partition("=")[0] in _FLAGS:
        length = 1 if "=" in arguments[0] else 2
        front, arguments = front + arguments[:length], arguments[length:]
    return arguments + front
