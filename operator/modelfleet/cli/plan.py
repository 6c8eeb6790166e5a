"""`modelfleet plan`: which layout keeps the promise at the least cost, and why. Works on files alone."""

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from modelfleet.cli import plan_flags
from modelfleet.cli.models import ModelError, model_facts
from modelfleet.cli.plan_flags import AskError
from modelfleet.cli.plan_json import document, schema_text
from modelfleet.cli.plan_text import text
from modelfleet.cli.report.page import html
from modelfleet.cli.terminal import show
from modelfleet.cli.yaml_io import MissingExtraError, UnreadableError, dump
from modelfleet.core.layout.answer import Answer
from modelfleet.core.layout.choose import answer
from modelfleet.core.layout.prose import tell
from modelfleet.core.layout.question import Question


class Output(StrEnum):
    """How the plan is printed."""

    TABLE = "table"
    PROSE = "prose"
    JSON = "json"
    YAML = "yaml"
    HTML = "html"


@dataclass(frozen=True)
class Asked:
    """A question and the name of what it is about, and the ModelDeployment that asks it, if one does."""

    name: str
    question: Question
    deployment: Mapping[str, Any] | None = None


def register(commands: Any) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser(
        "plan",
        help="say which layout keeps a promise at the least cost, and why",
        description="Plans a ModelDeployment from a file, or a bare model from flags. Asks no cluster."
        " AcceleratorClasses come from the files, else from the catalogue. 0: there is a plan; 1: nothing keeps the"
        " promise; 2: the question cannot be read.",
    )
    parser.add_argument(
        "-f",
        "--file",
        action="append",
        default=[],
        metavar="FILE",
        help="a ModelDeployment with its AcceleratorClasses and ModelProfiles, or a config.json; repeatable, - is"
        " standard input",
    )
    parser.add_argument("--model", metavar="MODEL", help="the model's config.json or a known name")
    parser.add_argument(
        "--class",
        dest="classes",
        action="append",
        default=[],
        metavar="NAME",
        help="in place of the spec's",
    )
    parser.add_argument("--nodes", metavar="FILE", help="nodes: `kubectl get nodes -o json`, or a short list")
    parser.add_argument("-o", "--output", type=Output, choices=list(Output), default=Output.TABLE, metavar="FORMAT",
                        help="table, prose, json, yaml or html; default: table")  # fmt: skip
    parser.add_argument("--schema", action="store_true", help="print the JSON Schema of -o json and -o yaml")
    plan_flags.add_arguments(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Prints the plan. 0: there is one; 1: nothing keeps the promise; 2: the question cannot be read."""
    if arguments.schema:
        print(schema_text(), end="")
        return 0
    try:
        asked = _asked(arguments)
        found = answer(asked.question)
        show(_printed(arguments.output, asked, found))
    except (AskError, ModelError, MissingExtraError, UnreadableError) as error:
        for line in str(error).splitlines():
            print(f"modelfleet: {line}", file=sys.stderr)
        return 2
    return 0 if found.chosen else 1


def _asked(arguments: argparse.Namespace) -> Asked:
    from modelfleet.cli.plan_files import read_files

    files = read_files(arguments.file, arguments.nodes)
    classes = [name for given in arguments.classes for name in given.split(",") if name]
    if files.deployment is not None:
        from modelfleet.cli.plan_manifest import manifest_question

        return Asked(*manifest_question(files, classes, arguments.model), files.deployment)
    if arguments.model is None and files.config is None:
        raise AskError("give a file with a ModelDeployment, a config.json or --model")
    facts = model_facts(arguments.model) if arguments.model is not None else files.config_facts()
    return Asked(facts.name, plan_flags.question_of(arguments, facts, classes, files.rooms))


def _printed(output: Output, asked: Asked, found: Answer) -> str:
    match output:
        case Output.JSON:
            return json.dumps(document(asked.name, found), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        case Output.YAML:
            return dump(document(asked.name, found))
        case Output.PROSE:
            return tell(asked.question, found)
        case Output.HTML:
            return html(asked.name, asked.question, found)
    from modelfleet.cli.plan_zero import to_zero_text

    return text(asked.name, asked.question, found) + to_zero_text(asked.deployment, found)
