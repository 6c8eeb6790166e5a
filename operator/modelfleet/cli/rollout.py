"""`modelfleet rollout`: how a change would go, stop and go on, and which revisions there are."""

import argparse
import sys
from typing import Any

from modelfleet.api.reasons import Reason
from modelfleet.cli import kubectl, rollback
from modelfleet.cli.kubectl import KubectlError
from modelfleet.cli.plan_flags import AskError
from modelfleet.cli.plan_text import columns
from modelfleet.cli.rollout_stage import read_stage
from modelfleet.cli.terminal import show
from modelfleet.cli.yaml_io import MissingExtraError, UnreadableError
from modelfleet.core.film import Film, lines
from modelfleet.core.rollback import deliverers, history


def register(commands: Any) -> None:
    """Adds the command and its actions to the parser."""
    parser = commands.add_parser("rollout", help="preview, pause or resume a rollout, or list revisions")
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    preview = actions.add_parser(
        "preview",
        help="print how a change would go, step by step",
        description="Takes the operator's own decision again and again on a cluster in memory, and prints what it does."
        " Nothing is written and no cluster is asked. Times are not told, only what is waited for.",
    )
    preview.add_argument(
        "-f",
        "--file",
        action="append",
        required=True,
        metavar="FILE",
        help="the ModelDeployment as it would be applied, its AcceleratorClasses, the model's config.json; repeatable",
    )
    preview.add_argument(
        "--state",
        metavar="FILE",
        help="the cluster as it is: `kubectl get mdep,accel,pods,nodes,configmaps,services,pdb,controllerrevisions -A"
        " -o json`; without it nothing runs yet, and there are nodes in plenty",
    )
    preview.set_defaults(run=_preview)
    for name, paused in (("pause", True), ("resume", False)):
        switch = actions.add_parser(name, help=f"set spec.rollout.paused to {str(paused).lower()}")
        switch.add_argument("name", metavar="NAME", help="the ModelDeployment")
        kubectl.add_flags(switch)
        switch.set_defaults(run=_switch, paused=paused)
    listed = actions.add_parser("history", help="list the revisions that `modelfleet rollback` can go back to")
    listed.add_argument("name", metavar="NAME", help="the ModelDeployment")
    kubectl.add_flags(listed)
    listed.set_defaults(run=_history)


def _preview(arguments: argparse.Namespace) -> int:
    """Prints the film. 0: it is told; 2: the files cannot be read."""
    try:
        stage, note = read_stage(arguments.file, arguments.state)
        film = Film(stage).run()
        show("\n".join((*lines(film), f"   {note}") if note else lines(film)))
        if any(frame.says.startswith(f"{Reason.INSPECTING}:") for frame in film.frames):
            show("   To see further give the model's config.json with another -f, or write spec.model.facts.")
    except (AskError, UnreadableError, MissingExtraError) as error:
        print(f"modelfleet rollout: {error}", file=sys.stderr)
        return 2
    return 0


def _switch(arguments: argparse.Namespace) -> int:
    try:
        kubectl.patch(arguments, "merge", {"spec": {"rollout": {"paused": arguments.paused}}})
        delivered_by = deliverers(kubectl.deployment(arguments, managed_fields=True))
    except KubectlError as error:
        print(f"modelfleet rollout: {error}", file=sys.stderr)
        return 2
    show(f"{arguments.name}: spec.rollout.paused is {str(arguments.paused).lower()}")
    rollback.warn(arguments.name, delivered_by)
    return 0


def _history(arguments: argparse.Namespace) -> int:
    try:
        rows = history(kubectl.revisions(arguments))
    except KubectlError as error:
        print(f"modelfleet rollout: {error}", file=sys.stderr)
        return 2
    told = [(str(number), name, "yes" if kept else "no, an older version made it") for number, name, kept in rows]
    show("\n".join(columns(("number", "revision", "can be gone back to"), told)))
    return 0
