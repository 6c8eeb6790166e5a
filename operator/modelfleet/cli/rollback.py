"""`modelfleet rollback NAME`: writes the spec of an earlier revision, as the user and with the user's rights."""

import argparse
import sys
from collections.abc import Mapping
from typing import Any

from modelfleet.cli import kubectl
from modelfleet.cli.kubectl import KubectlError
from modelfleet.cli.terminal import show
from modelfleet.cli.yaml_io import MissingExtraError, dump
from modelfleet.core import raw
from modelfleet.core.rollback import Rollback, RollbackError, decide_rollback, patch


def register(commands: Any) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser(
        "rollback",
        help="go back to an earlier revision of a ModelDeployment",
        description="Writes the spec that the revision was made from, by kubectl and so with your rights; scaling,"
        " rollout and economics stay as they are. Where a tool delivers the object from a repository, that puts its own"
        " spec back: commit what --print gives.",
    )
    parser.add_argument("name", metavar="NAME", help="the ModelDeployment")
    parser.add_argument("--to", metavar="REVISION", help="default: the one that serves, or the one before")
    parser.add_argument("--print", action="store_true", help="print the object, and write nothing")
    kubectl.add_flags(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Writes or prints the earlier spec. 0: done; 1: there is nothing to go back to; 2: it could not be done."""
    try:
        deployment = kubectl.deployment(arguments, managed_fields=True)
        rollback = decide_rollback(deployment, kubectl.revisions(arguments), arguments.to)
        if arguments.print:
            show(dump(_manifest(deployment, rollback)))
            return 0
        kubectl.patch(arguments, "json", patch(deployment, rollback))
    except RollbackError as error:
        print(f"modelfleet rollback: {arguments.name}: {error}", file=sys.stderr)
        return 1
    except (KubectlError, MissingExtraError) as error:
        print(f"modelfleet rollback: {error}", file=sys.stderr)
        return 2
    show(f"{arguments.name}: spec.{', spec.'.join(rollback.changed)} as in revision {rollback.to}")
    warn(arguments.name, rollback.delivered_by)
    return 0


def warn(name: str, delivered_by: tuple[str, ...]) -> None:
    """Says who is going to put the spec back."""
    if delivered_by:
        print(
            f"modelfleet: {', '.join(delivered_by)} delivers {name} and will put its own spec back: commit the change"
            " where that one is kept",
            file=sys.stderr,
        )


def _manifest(deployment: Mapping[str, Any], rollback: Rollback) -> dict[str, Any]:
    metadata = {key: raw.text(deployment, "metadata", key) for key in ("name", "namespace")}
    labels = raw.mapping(deployment, "metadata", "labels")
    return {
        "apiVersion": raw.text(deployment, "apiVersion"),
        "kind": raw.text(deployment, "kind"),
        "metadata": metadata | ({"labels": dict(labels)} if labels else {}),
        "spec": dict(rollback.spec),
    }
