"""The command `modelfleet`: reads its arguments and hands over to the module of the command."""

import argparse
import os
import re
import sys
from collections.abc import Sequence
from importlib.metadata import version

from modelfleet.api import names
from modelfleet.cli import (
    calibrate,
    catalog,
    choose,
    completion,
    crds,
    docs,
    explain,
    lint,
    plan,
    predict,
    rollback,
    rollout,
    schema,
    simulate,
)

COMMANDS = (
    plan,
    explain,
    rollout,
    rollback,
    calibrate,
    catalog,
    predict,
    choose,
    simulate,
    lint,
    schema,
    crds,
    docs,
    completion,
)
"""Each has `register(commands)`, which adds a parser whose default `run` takes arguments and gives the exit status."""


def parser(program: str = "modelfleet") -> argparse.ArgumentParser:
    """The parser of every command, for a program of that name."""
    made = argparse.ArgumentParser(program, description="Model-serving fleets on Kubernetes.")
    commands = made.add_subparsers(metavar="COMMAND", required=True)
    for module in COMMANDS:
        module.register(commands)
    commands.add_parser("version", help="print the version").set_defaults(run=_version)
    return made


def main(argv: Sequence[str] | None = None, program: str = "modelfleet") -> int:
    """Runs a command and gives its exit status: 0 fine, 1 faults were found, 2 it could not be done."""
    reader = parser(program)
    completion.offer(reader)
    arguments = reader.parse_args(_with_negatives(sys.argv[1:] if argv is None else argv))
    try:
        status: int = arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough, as in `modelfleet crds | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status


def _with_negatives(argv: Sequence[str]) -> list[str]:
    """The arguments with `--ttft -1s` as `--ttft=-1s`, so that the value's own sentence says what is wrong with it.

    No flag begins with a digit; argparse takes everything with a dash for one.
    """
    joined: list[str] = []
    for argument in argv:
        if joined and re.match(r"-\.?\d", argument) and re.fullmatch(r"--[a-z-]+", joined[-1]):
            joined[-1] += f"={argument}"
        else:
            joined.append(argument)
    return joined


def _version(_: argparse.Namespace) -> int:
    print(f"modelfleet {version('modelfleet')} ({names.API_VERSION})")
    return 0
