"""kubectl, with the user's own configuration and rights: only the operator itself talks to the API server."""

import argparse
import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Timer
from typing import Any

from modelfleet.api import names
from modelfleet.core import raw

DEPLOYMENTS = f"{names.DEPLOYMENT_PLURAL}.{names.GROUP}"
FIELD_MANAGER = "modelfleet-cli"

_TIMEOUT_S = 30.0
_FORWARDING = re.compile(r"127\.0\.0\.1:(\d+) -> (\d+)")
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


def accelerator_class(arguments: argparse.Namespace, name: str) -> Mapping[str, Any]:
    """An AcceleratorClass by its name."""
    return _object(arguments, ["get", f"{names.CLASS_PLURAL}.{names.GROUP}", "--output=json", _REQUEST], name)


def pods(arguments: argparse.Namespace) -> list[Mapping[str, Any]]:
    """The leaders of the replicas of the ModelDeployment that the arguments name."""
    label = f"{names.DEPLOYMENT_LABEL}={names.child(arguments.name)},{names.RANK_LABEL}=0"
    found = _object(arguments, ["get", "pods", "--output=json", _REQUEST, f"--selector={label}"])
    return [item for item in raw.items(found, "items") if _is_of(raw.controller(item), arguments.name)]


def apply(arguments: argparse.Namespace, manifest: Mapping[str, Any]) -> None:
    """Applies an object in our own name. What others own of it is left, and said."""
    command = ["apply", "--server-side", f"--field-manager={FIELD_MANAGER}", _REQUEST, "--filename=-"]
    _run(arguments, command, content=json.dumps(manifest).encode())


@contextmanager
def forwarded(arguments: argparse.Namespace, pod: str, ports: Sequence[int]) -> Iterator[dict[int, int]]:
    """Local ports that lead to those of a pod, for the time of the block."""
    command = _whole(arguments, ["port-forward", "--address=127.0.0.1", f"pod/{pod}", *(f":{port}" for port in ports)])
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    except FileNotFoundError as error:
        raise KubectlError("kubectl is not on the PATH; install it, or give --url and --metrics-url") from error
    try:
        yield _told_ports(process, len(ports))
    finally:
        process.terminate()
        process.wait()


def _told_ports(process: "subprocess.Popen[str]", count: int) -> dict[int, int]:
    """What kubectl says when it listens: `Forwarding from 127.0.0.1:40001 -> 8000`."""
    found: dict[int, int] = {}
    watchdog = Timer(_TIMEOUT_S, process.kill)
    watchdog.start()
    try:
        for line in process.stdout or ():
            match = _FORWARDING.search(line)
            if match is not None:
                found[int(match[2])] = int(match[1])
            if len(found) == count:
                return found
    finally:
        watchdog.cancel()
    said = (process.stderr.read() if process.stderr else "").strip().splitlines() or ["it gave no reason"]
    raise KubectlError(f"kubectl forwards no port: {said[-1]}")


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


def _whole(arguments: argparse.Namespace, command: list[str], *last: str) -> list[str]:
    whole = ["kubectl", *command]
    whole += [f"--namespace={arguments.namespace}"] if arguments.namespace else []
    whole += [f"--context={arguments.context}"] if arguments.context else []
    return whole + (["--", *last] if last else [])


def _run(arguments: argparse.Namespace, command: list[str], *last: str, content: bytes | None = None) -> bytes:
    whole = _whole(arguments, command, *last)
    try:
        done = subprocess.run(whole, capture_output=True, timeout=_TIMEOUT_S, check=False, input=content)
    except FileNotFoundError as error:
        raise KubectlError("kubectl is not on the PATH; install it, or give a saved object with -f") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise KubectlError(f"kubectl did not answer: {error}") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["it gave no reason"]
        raise KubectlError(f"kubectl refused: {said[-1]}")
    return done.stdout
