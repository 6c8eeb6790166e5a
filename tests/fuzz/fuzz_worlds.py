"""Whole clusters around one ModelDeployment, from a seed: what a user wrote, what runs, and what others put there.

`case` gives worlds that go through the gatherer, and so keep what the API server promises of any object: its metadata,
and that a status fits the schema. `loose` worlds promise an identity only; they go to the decision directly.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import cache
from random import Random
from typing import Any

from fuzz_checks import fits_status
from fuzz_mutations import ODD_TEXT, Path, grow, odd, spoil
from fuzz_states import foreign_status, leaving, managed_fields, pod_status
from fuzz_values import TIMES

from api_cases import BAD, GOOD
from builders import Fleet, accelerator_class, deployment, large_class, large_deployment, manual
from modelfleet.api import names
from modelfleet.api.acceleratorclass import AcceleratorClass
from modelfleet.api.modeldeployment import ModelDeployment
from modelfleet.controller.resources import CHILDREN

Raw = dict[str, Any]
NAMESPACE = "team"
UID = "uid-of-the-deployment"
_PROMISED = {"apiVersion", "kind", "metadata"}
_IDENTITY = {("metadata", "name"), ("metadata", "namespace"), ("metadata", "uid")}
_LONG = "a-model-with-a-long-name-that-fills-all-sixty-three-characters-x"[:63]
_MACHINES = ("a", "b", "c", "d")  # a group has a pod on each of its nodes
_API_VERSIONS = {child.kind: child.api_version for child in CHILDREN}


@dataclass
class Case:
    """One world, as JSON: everything in the cluster, what the server refuses, and how far the clocks are apart."""

    seed: int
    name: str
    objects: list[Raw]
    skew_s: float = 0.0
    refused: list[str] = field(default_factory=list)
    terminating: bool = False

    @property
    def deployment(self) -> Raw:
        """The ModelDeployment; the first object."""
        return self.objects[0]

    def text(self) -> str:
        """The world, to be read by a human and by `Case(**json.loads(...))`."""
        return json.dumps(asdict(self), indent=1, ensure_ascii=True)


def case(seed: int) -> Case:
    """The world of a seed; the same one always."""
    rng = Random(seed)
    objects = copy_of(rng.choice(templates()))
    made = Case(seed, objects[0]["metadata"]["name"], objects)
    _change_deployment(rng, made.deployment)
    for item in objects[1:]:
        _change_child(rng, item)
    objects += list(_company(rng, made))
    for item in objects[1:]:
        for _ in range(rng.choice((0, 0, 0, 0, 0, 1, 1, 2, 4))):
            spoil(rng, item, _promised_of_builtins)
    made.skew_s = rng.choice((0, 0, 0, 3600, -3600, 30, -90, 1e9, -1e9))
    made.refused = rng.choice(([], [], [], [], ["Pod"], ["Service"], ["ConfigMap"], ["ControllerRevision"]))
    made.terminating = rng.random() < 0.05
    made.objects = list({_address(item): item for item in reversed(objects)}.values())[::-1]
    return made


def loose(seed: int) -> Case:
    """As `case`, with nothing promised but kind and identity: any field may have any type, metadata's too."""
    rng = Random(seed)
    made = case(seed)
    for item in made.objects:
        for _ in range(rng.choice((0, 0, 1, 2))):
            spoil(rng, item, _identity)
    return made


def promised(path: Path) -> bool:
    """Whether the API server promises the place: it keeps the kind and every type in metadata."""
    return path[0] in _PROMISED


def _promised_of_builtins(path: Path) -> bool:
    return promised(path) or path in (("spec",), ("status",))


def _identity(path: Path) -> bool:
    return path[0] in ("kind", "apiVersion") or path == ("metadata",) or path in _IDENTITY


@cache
def templates() -> tuple[str, ...]:
    """Sound worlds as JSON, each a list that begins with the ModelDeployment: fresh, settled, amid a rollout."""
    found = []
    for wanted, kind in _wishes():
        wanted["metadata"] |= {"uid": UID, "namespace": NAMESPACE}
        fleet = Fleet(wanted, {kind["metadata"]["name"]: kind}, machines=_MACHINES)
        found.append(_dumped(fleet))
        fleet.settle()
        found.append(_dumped(fleet))
        fleet.deployment["spec"]["engine"] = {"image": "registry.example/worker:2"}
        for _ in range(3):
            fleet.reconcile()
            fleet.tick()
            found.append(_dumped(fleet))
    return tuple(found)


def _wishes() -> Iterator[tuple[Raw, Raw]]:
    yield deployment(), accelerator_class()
    yield manual(3), accelerator_class()
    yield deployment(_LONG, scaling={"mode": "Manual", "replicas": 2}), accelerator_class()
    yield deployment("a"), accelerator_class()
    yield large_deployment(), large_class()
    yield manual(2, parallelism={"tensor": 1, "pipeline": 2}), accelerator_class(acceleratorsPerNode=1)
    for good in GOOD:
        if good.manifest["kind"] == names.DEPLOYMENT_KIND:
            manifest = json.loads(json.dumps(good.manifest))
            named = manifest["spec"]["accelerators"]["classes"][0]
            yield manifest, accelerator_class(named, acceleratorsPerNode=8)


def _dumped(fleet: Fleet) -> str:
    objects = [fleet.deployment, *fleet.classes.values(), *fleet.objects.values()]
    for item in objects:
        if item["kind"] in _API_VERSIONS:
            item["apiVersion"] = _API_VERSIONS[item["kind"]]
    return json.dumps(objects)


def copy_of(text: str) -> list[Raw]:
    """The objects of a template."""
    return list(json.loads(text))


@cache
def _bad_specs() -> tuple[str, ...]:
    manifests = (case.manifest for case in BAD)
    return tuple(json.dumps(made["spec"]) for made in manifests if made["kind"] == names.DEPLOYMENT_KIND)


def _change_deployment(rng: Random, raw: Raw) -> None:
    if rng.random() < 0.15:
        raw["spec"] = json.loads(rng.choice(_bad_specs()))
    for _ in range(rng.choice((0, 0, 1, 2, 5))):
        grow(rng, raw["spec"], ModelDeployment.model_fields["spec"].annotation)
    if rng.random() < 0.3:
        raw["status"] = foreign_status(rng)
    metadata = raw["metadata"]
    if rng.random() < 0.2:
        metadata["managedFields"] = managed_fields(rng)
    if rng.random() < 0.05:
        metadata["labels"] = {f"label-{number}": "x" for number in range(rng.choice((10, 3000)))}
    if rng.random() < 0.03:
        leaving(rng, raw)
    metadata["generation"] = rng.choice((1, 2, 7, 2**31, 2**63 - 1))
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2, 5))):
        spoil(rng, raw, promised)
    if not fits_status(raw.get("status", {})):
        del raw["status"]  # the server let nobody write it; `loose` worlds have such ones


def _change_child(rng: Random, item: Raw) -> None:
    if item["kind"] == names.CLASS_KIND:
        for _ in range(rng.choice((0, 0, 0, 1, 3))):
            grow(rng, item["spec"], AcceleratorClass.model_fields["spec"].annotation)
        return
    metadata = item["metadata"]
    if item["kind"] == "Pod":
        item["status"] = pod_status(rng) if rng.random() < 0.6 else item["status"]
        if rng.random() < 0.2:
            metadata["managedFields"] = managed_fields(rng)
        if rng.random() < 0.2:
            metadata["labels"][names.SERVING_LABEL] = rng.choice(("true", "false", ""))
    if rng.random() < 0.1:
        leaving(rng, item)
    if rng.random() < 0.05:
        metadata["ownerReferences"] = rng.choice(([], _references("another", "uid-of-another")))
    if rng.random() < 0.05:
        metadata["labels"] = rng.choice(({}, {names.DEPLOYMENT_LABEL: "another"}))
    if rng.random() < 0.2:
        metadata["creationTimestamp"] = rng.choice(TIMES)


def _company(rng: Random, made: Case) -> Iterator[Raw]:
    """Objects beside the template's: more of ours, and what others have in the same and in other namespaces."""
    children = [item for item in made.objects[1:] if item["kind"] in _API_VERSIONS]
    makers: tuple[Callable[[], Raw | None], ...] = (
        lambda: _sibling(rng, children),
        lambda: _namesake(rng, made, children),
        lambda: _class(rng),
        lambda: _bystander(rng, made),
        lambda: _another(rng),
    )
    for number in range(rng.randrange(16)):
        item = rng.choice(makers)()
        if item is not None:
            item["metadata"]["uid"] = f"uid-company-{number}"
            yield item


def _sibling(rng: Random, children: list[Raw]) -> Raw | None:
    """Another child of ours: a pod of another slot or revision, or under a name that we would not give."""
    if not children:
        return None
    item = json.loads(json.dumps(rng.choice(children)))
    head, _, _ = item["metadata"]["name"].rpartition("-")
    digest = f"{rng.randrange(2**32):08x}"
    tail = rng.choice((str(rng.randrange(12)), "x", digest, f"{digest}-0", f"{digest}-0-1"))
    item["metadata"]["name"] = f"{head or 'x'}-{tail}"[-63:].lstrip("-")
    if item["kind"] == "Pod":
        item["status"] = pod_status(rng)
    if item["kind"] == "ControllerRevision":
        item["revision"] = rng.choice((0, 1, 5, 2**31, 2**63 - 1, -1))
    return item


def _namesake(rng: Random, made: Case, children: list[Raw]) -> Raw:
    """An object of somebody else, under a name of ours or with our label."""
    kind = rng.choice(list(_API_VERSIONS))
    named = [item["metadata"]["name"] for item in children if item["kind"] == kind]
    name = rng.choice((*named, names.child(made.name), "theirs"))
    labels = rng.choice(({}, {names.DEPLOYMENT_LABEL: names.child(made.name)}))
    earlier = _references(made.name, "uid-of-an-earlier-one")
    owner = rng.choice(([], earlier, _references("another", "uid-of-another")))
    metadata = {"name": name, "namespace": NAMESPACE, "labels": labels, "ownerReferences": owner}
    return {"apiVersion": _API_VERSIONS[kind], "kind": kind, "metadata": metadata, **_content(rng, kind)}


def _content(rng: Random, kind: str) -> Raw:
    if kind == "Pod":
        return {"spec": {"containers": [{"name": "app", "image": "app"}]}, "status": pod_status(rng)}
    if kind == "Service":
        return {"spec": {"ports": [{"port": 80}], "selector": {"app": "theirs"}}}
    if kind in ("ConfigMap", "ControllerRevision"):
        return {"data": {"theirs": rng.choice(ODD_TEXT)}}
    return {"spec": {"theirs": odd(rng)}, "status": {"theirs": odd(rng)}}


def _class(rng: Random) -> Raw:
    return accelerator_class(rng.choice(("cpu", "h100", "h100-sxm", "spare", "a" * 63)))


def _bystander(rng: Random, made: Case) -> Raw:
    """Objects that no decision is about: events, leases, and the same names in another namespace."""
    kind = rng.choice(("Event", "Lease", "Pod", "Service"))
    versions = {"Event": "events.k8s.io/v1", "Lease": "coordination.k8s.io/v1"} | _API_VERSIONS
    labels = {names.DEPLOYMENT_LABEL: names.child(made.name)}
    space = NAMESPACE if kind in ("Event", "Lease") else "another-team"
    metadata = {"name": made.name[:50] + "-of-others", "namespace": space, "labels": labels}
    return {"apiVersion": versions[kind], "kind": kind, "metadata": metadata, "spec": {}, "series": odd(rng)}


def _another(rng: Random) -> Raw:
    """Another ModelDeployment of the namespace."""
    other = deployment(rng.choice(("another", "chat-2")))
    other["metadata"]["namespace"] = NAMESPACE
    return other


def _references(name: str, uid: str) -> list[Raw]:
    kind = {"apiVersion": names.API_VERSION, "kind": names.DEPLOYMENT_KIND}
    return [{**kind, "name": name, "uid": uid, "controller": True}]


def _address(item: Raw) -> tuple[str, str, str]:
    metadata = item["metadata"]
    return item["kind"], str(metadata.get("namespace", "")), metadata["name"]
