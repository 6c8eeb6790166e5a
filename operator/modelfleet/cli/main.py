"""The command `modelfleet`: reads its arguments and hands over to the module of the command."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

from modelfleet.api import names
from modelfleet.cli import crds, docs, lint, schema

COMMANDS = (lint, schema, crds, docs)
"""Each has `register(commands)`, which adds a parser whose default `run` takes arguments and gives the exit status."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and gives its exit status: 0 fine, 1 faults were found, 2 it could not be done."""
    parser = argparse.ArgumentParser("modelfleet", description="Model-serving fleets on Kubernetes.")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for module in COMMANDS:
        module.register(commands)
    commands.add_parser("version", help="print the version").set_defaults(run=_version)
    arguments = parser.parse_args(argv)
    try:
        status: int = arguments.run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has seen enough, as in `modelfleet crds | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status


def _version(_: argparse.Namespace) -> int:
    print(f"modelfleet {version('modelfleet')} ({names.API_VERSION})")
    return 0
