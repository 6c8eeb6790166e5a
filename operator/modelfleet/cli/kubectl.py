"""kubectl, with the user's own configuration and rights: only the operator itself talks to the API server."""

import argparse
import json
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from modelfleet.api import names
from modelfleet.core import raw

DEPLOYMENTS = f"{names.DEPLOYMENT_PLURAL}.{names.GROUP}"
FIELD_MANAGER = "modelfleet-cli"

_TIMEOUT_S = 30.0
_REQUEST = "--request-timeout=20s"


class KubectlError(Exception):
    """kubectl could not do it; the message is a sentence for the user."""


def add_flags(parser: argparse.ArgumentParser) -> None:
    """The flags by which kubectl finds the object."""
    parser.add_argument("-n", "--namespace", metavar="NAMESPACE", help="default: that of the current context")
    parser.add_argument("--context", metavar="CONTEXT", help="kubectl's context; default: the current one")


def deployment(arguments: argparse.Namespace, *, managed_fields: bool = False) -> Mapping[str, Any]:
    """The ModelDeployment that the arguments name; kubectl leaves its managed fields out unless they are asked for."""
    shown = ["--show-managed-fields"] if managed_fields else []
    return _object(arguments, ["get", DEPLOYMENTS, "--output=json", *shown, _REQUEST], arguments.name)


def revisions(arguments: argparse.Namespace) -> list[Mapping[str, Any]]:
    """The ControllerRevisions of the ModelDeployment that the arguments name."""
    label = f"{names.DEPLOYMENT_LABEL}={names.child(arguments.name)}"
    found = _object(arguments, ["get", "controllerrevisions.apps", "--output=json", _REQUEST, f"--selector={label}"])
    return [item for item in raw.items(found, "items") if _is_of(raw.controller(item), arguments.name)]


def _is_of(controller: Mapping[str, Any], name: str) -> bool:
    """Anybody may give an object our label."""
    return controller.get("kind") == names.DEPLOYMENT_KIND and controller.get("name") == name


def state(arguments: argparse.Namespace) -> Mapping[str, Any]:
    """The ConfigMap in which decisions about the ModelDeployment that the arguments name are remembered; empty where
    there is none."""
    name = names.state(arguments.name)
    found = _run(arguments, ["get", "configmaps", "--output=json", "--ignore-not-found", _REQUEST], name)
    return _parsed(found) if found.strip() else {}


def patch(arguments: argparse.Namespace, kind: str, content: Sequence[Any] | Mapping[str, Any]) -> None:
    """Patches the ModelDeployment that the arguments name; `kind` is kubectl's: json or merge."""
    text = json.dumps(content)
    command = ["patch", DEPLOYMENTS, f"--type={kind}", f"--patch={text}", f"--field-manager={FIELD_MANAGER}", _REQUEST]
    _run(arguments, command, arguments.name)


def _object(arguments: argparse.Namespace, command: list[str], *last: str) -> Mapping[str, Any]:
    return _parsed(_run(arguments, command, *last))


def _parsed(answer: bytes) -> Mapping[str, Any]:
    try:
        content = json.loads(answer)
    except ValueError as error:
        raise KubectlError("kubectl answered with something that is not JSON") from error
    if not isinstance(content, Mapping):
        raise KubectlError("kubectl answered with something that is not an object")
    return content


def _run(arguments: argparse.Namespace, command: list[str], *last: str) -> bytes:
    whole = ["kubectl", *command]
    whole += [f"--namespace={arguments.namespace}"] if arguments.namespace else []
    whole += [f"--context={arguments.context}"] if arguments.context else []
    whole += ["--", *last] if last else []
    try:
        done = subprocess.run(whole, capture_output=True, timeout=_TIMEOUT_S, check=False)
    except FileNotFoundError as error:
        raise KubectlError("kubectl is not on the PATH; install it, or give a saved object with -f") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise KubectlError(f"kubectl did not answer: {error}") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["it gave no reason"]
        raise KubectlError(f"kubectl refused: {said[-1]}")
    return done.stdout
