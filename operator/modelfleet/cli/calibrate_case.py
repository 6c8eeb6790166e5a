"""What `modelfleet calibrate` measures: the deployment, its plan and model, from the cluster or from files."""

import argparse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from modelfleet.api import names
from modelfleet.api.acceleratorclass import AcceleratorClass
from modelfleet.api.modeldeployment import ModelDeployment, ScalingMode
from modelfleet.api.parse import parse_class, parse_deployment
from modelfleet.cli import kubectl
from modelfleet.cli.calibrating import CalibrateError
from modelfleet.cli.plan_files import read_files
from modelfleet.cli.plan_manifest import manifest_question
from modelfleet.core import raw
from modelfleet.core.described import ConfigError, inspected, stated
from modelfleet.core.kept import entry
from modelfleet.core.layout.choose import answer
from modelfleet.core.model.facts import ModelFacts
from modelfleet.core.plan import Plan, read
from modelfleet.core.planning import Setting, decide_plan
from modelfleet.core.snapshot import Settings


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is measured. `standing` replicas are ready, 0 where no cluster was asked."""

    deployment: ModelDeployment
    plan: Plan
    kind: AcceleratorClass
    facts: ModelFacts
    standing: int = 0


@dataclass(frozen=True, kw_only=True)
class Access:
    """Where the replica answers, and where its worker's page is."""

    url: str
    page_url: str


def subject_of(arguments: argparse.Namespace) -> Subject:
    """From the files that were given, else from the cluster. Raises CalibrateError, KubectlError and what reading files
    raises."""
    return _of_files(arguments) if arguments.file else _of_cluster(arguments)


def _of_files(arguments: argparse.Namespace) -> Subject:
    files = read_files(arguments.file, None)
    if files.deployment is None:
        raise CalibrateError(f"{arguments.file[0]}: it holds no {names.DEPLOYMENT_KIND}")
    deployment = _deployment(files.deployment)
    question = manifest_question(files, (), arguments.model)[1]
    classes = {}
    for name in map(str, deployment.spec.accelerators.classes):
        if name not in files.classes:
            raise CalibrateError(f"no file has the AcceleratorClass {name}; give it with another -f")
        classes[name] = _class(files.classes[name])
    planning = decide_plan(question, answer(question), Setting(deployment, classes, Settings(worker_image="-")))
    if planning.plan is None:
        raise CalibrateError(f"there is no plan to calibrate: {planning.verdict.message}")
    plan = planning.plan
    return Subject(deployment=deployment, plan=plan, kind=classes[plan.class_name], facts=question.variants[0].facts)


def _of_cluster(arguments: argparse.Namespace) -> Subject:
    found = kubectl.deployment(arguments)
    deployment, revision = _deployment(found), raw.text(found, "status", "plan", "revision")
    name = names.revision(arguments.name, revision)
    stored = next((item for item in kubectl.revisions(arguments) if raw.name(item) == name), None)
    plan = read(raw.at(stored, "data", "plan")) if stored is not None else None
    if plan is None:
        raise CalibrateError(f"{arguments.name} has no pinned plan yet; `modelfleet explain {arguments.name}` says why")
    kind = _class(kubectl.accelerator_class(arguments, plan.class_name))
    standing = raw.integer(found, "status", "readyReplicas")
    return Subject(deployment=deployment, plan=plan, kind=kind, facts=_facts(arguments, deployment), standing=standing)


def _facts(arguments: argparse.Namespace, deployment: ModelDeployment) -> ModelFacts:
    model = deployment.spec.model
    try:
        if model.facts is not None:
            return stated(model.facts, arguments.name)
        report = raw.mapping(entry(kubectl.state(arguments), names.MODEL_KEY), "report")
        return inspected(report, model.source.canonical)
    except ConfigError as error:
        raise CalibrateError(f"what {arguments.name} is made of is not known: {error}") from error


def _deployment(found: Mapping[str, Any]) -> ModelDeployment:
    parsed = parse_deployment(found)
    if isinstance(parsed, tuple):
        raise CalibrateError(f"{raw.name(found)}: {parsed[0]}")
    return parsed


def _class(found: Mapping[str, Any]) -> AcceleratorClass:
    parsed = parse_class(found)
    if isinstance(parsed, tuple):
        raise CalibrateError(f"AcceleratorClass {raw.name(found)}: {parsed[0]}")
    return parsed


def check_scaling(subject: Subject) -> None:
    """CalibrateError where the load of a calibration would buy replicas."""
    scaling = subject.deployment.spec.scaling
    if subject.standing and scaling.mode is ScalingMode.ACTIVE and scaling.max_replicas > subject.standing:
        raise CalibrateError(
            f"spec.scaling: is mode Active with maxReplicas {scaling.max_replicas} and {subject.standing} ready, so the"
            " load of a calibration would buy replicas; set mode Advisory for its time, or maxReplicas to"
            f" {subject.standing}; --force goes on"
        )


@contextmanager
def access(arguments: argparse.Namespace) -> Iterator[Access]:
    """The addresses that were given, else those of a pod that serves, through kubectl."""
    if arguments.url:
        url = arguments.url.rstrip("/")
        yield Access(url=url, page_url=(arguments.metrics_url or url).rstrip("/"))
        return
    pod = arguments.pod or _pod(arguments)
    with kubectl.forwarded(arguments, pod, (names.HTTP_PORT, names.STATUS_PORT)) as ports:
        yield Access(
            url=f"http://127.0.0.1:{ports[names.HTTP_PORT]}", page_url=f"http://127.0.0.1:{ports[names.STATUS_PORT]}"
        )


def _pod(arguments: argparse.Namespace) -> str:
    ready = [raw.name(pod) for pod in kubectl.pods(arguments) if _is_ready(pod)]
    if not ready:
        raise CalibrateError(f"no replica of {arguments.name} is ready; `modelfleet explain {arguments.name}` says why")
    return ready[0]


def _is_ready(pod: Mapping[str, Any]) -> bool:
    return any(
        raw.text(each, "type") == "Ready" and raw.text(each, "status") == "True"
        for each in raw.items(pod, "status", "conditions")
    )
