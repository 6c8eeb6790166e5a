"""`modelfleet lint`: what the API server and the operator would say about files, before they are applied."""

import argparse
import json
import sys
from importlib.metadata import version
from typing import Any

from modelfleet.api.crd import KINDS
from modelfleet.cli import sarif
from modelfleet.cli.findings import LEVEL, Report, check
from modelfleet.cli.yaml_io import MissingExtraError

_DESCRIPTION = """\
Checks objects of modelfleet; objects of other kinds are passed over.
Helm templates are skipped: render them first, as in `helm template CHART | modelfleet lint -`.
Exit status: 0 all is fine, 1 there are faults, 2 a file could not be read."""


def register(commands: Any) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser(
        "lint",
        help="check files with objects of modelfleet",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="a YAML or JSON file, a folder, a pattern such as 'deploy/**/*.yaml'; - is standard input",
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=_OUTPUTS,
        default="plain",
        help="plain: a line a fault (the default); sarif: 2.1.0; json",
    )
    parser.add_argument(
        "--only-ours",
        action="store_true",
        help="pass over files that say nothing of our kinds, also if they are no YAML",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Prints the report. 0: all is fine; 1: there are faults; 2: a file could not be read."""
    report = Report()
    try:
        for argument in arguments.files:
            check(argument, report, only_ours=arguments.only_ours)
    except MissingExtraError as error:
        print(f"modelfleet: {error}", file=sys.stderr)
        return 2
    _OUTPUTS[arguments.output](report)
    for file, why in (*report.skipped, *report.unreadable):
        print(f"modelfleet: {file}: {why}", file=sys.stderr)
    return report.status


def _plain(report: Report) -> None:
    for one in report.findings:
        print(one)
    if report.status == 0:
        print(_praise(report.objects))


def _praise(objects: int) -> str:
    if not objects:
        *most, last = (kind.model.__name__ for kind in KINDS)
        return f"nothing to check: no {', '.join(most)} or {last} here"
    return f"{objects} objects are fine" if objects > 1 else "1 object is fine"


def _sarif(report: Report) -> None:
    print(json.dumps(sarif.log(report, version("modelfleet")), indent=1))


def _json(report: Report) -> None:
    findings = [
        {
            "rule": one.rule.id,
            "level": LEVEL,
            "file": one.file,
            "line": one.line,
            "column": one.column,
            "field": one.path,
            "message": one.message,
            "help": one.rule.help,
        }
        for one in report.findings
    ]
    files = {
        key: [{"file": file, "why": why} for file, why in getattr(report, key)] for key in ("skipped", "unreadable")
    }
    print(json.dumps({"objects": report.objects, "findings": findings, **files}, indent=1))


_OUTPUTS = {"plain": _plain, "sarif": _sarif, "json": _json}
