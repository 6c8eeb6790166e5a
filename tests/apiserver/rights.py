"""What roles grant, what the API server's audit log says was used, and where the two differ."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelfleet_local.api import Api
from modelfleet_local.waiting import wait_until

_FORBIDDEN, _CREATED = 403, 201
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_DISCOVERY = ("/api", "/apis", "/version", "/openapi")  # what Kubernetes' own system:discovery grants to everyone


@dataclass(frozen=True, order=True)
class Right:
    """A verb on a resource (`pods`, `modeldeployments/status`). `namespace` "": in all; `name` "": of any name."""

    resource: str
    group: str
    verb: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        where = f"in namespace {self.namespace}" if self.namespace else "cluster-wide"
        named = f" named {self.name}" if self.name else ""
        return f"{self.verb} {self.resource}.{self.group or 'core'}{named} {where}"

    def covers(self, use: "Right") -> bool:
        """Whether this, as a grant, allows `use`. A create carries no name that could be granted."""
        what = (self.resource, self.group, self.verb) == (use.resource, use.group, use.verb)
        where = self.namespace in ("", use.namespace)
        return what and where and (self.name in ("", use.name) if self.verb != "create" else True)


def granted(manifests: Iterable[Mapping[str, Any]], account: str) -> set[Right]:
    """What the roles among `manifests` grant to the service account of this name."""
    objects = list(manifests)
    roles = {(item["kind"], item["metadata"]["name"], _namespace(item)): item for item in objects if "rules" in item}
    rights: set[Right] = set()
    for binding in objects:
        if binding["kind"] not in ("RoleBinding", "ClusterRoleBinding") or binding["subjects"][0]["name"] != account:
            continue
        namespace = _namespace(binding)
        role = roles[binding["roleRef"]["kind"], binding["roleRef"]["name"], namespace]
        rights |= {right for rule in role["rules"] for right in expanded(rule, namespace)}
    return rights


def wait_holds(api: Api, account: str, rights: Iterable[Right]) -> None:
    """Until the API server goes by what was granted to a service account (`namespace:name`): a moment after its roles
    are there. Before that its first requests are refused."""
    for right in rights:
        resource, _, subresource = right.resource.partition("/")
        asked = {"namespace": right.namespace, "group": right.group, "verb": right.verb, "name": right.name}
        attributes = {**asked, "resource": resource, "subresource": subresource}
        review = {"spec": {"user": f"system:serviceaccount:{account}", "resourceAttributes": attributes}}
        wait_until(
            f"the right to {right}", lambda it=review: bool(api.create(_REVIEWS, it)["status"]["allowed"]), timeout_s=30
        )


def _namespace(item: Mapping[str, Any]) -> str:
    return "" if item["kind"].startswith("Cluster") else str(item["metadata"]["namespace"])


def expanded(rule: Mapping[str, Any], namespace: str = "") -> Iterator[Right]:
    """The single rights of a role's rule."""
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                for name in rule.get("resourceNames") or ("",):
                    yield Right(resource, group, verb, namespace, name)


@dataclass(frozen=True)
class Uses:
    """What an account asked of the API server; `denied` is the part that was answered with 403."""

    rights: frozenset[Right]
    denied: frozenset[Right]
    undiscovered: frozenset[str]
    """Paths outside of any resource that not everyone may read."""


def used(audit_log: Path, user: str) -> Uses:
    """What `user` asked, by the audit log."""
    rights: set[Right] = set()
    denied: set[Right] = set()
    paths: set[str] = set()
    for line in audit_log.read_bytes().splitlines(keepends=True):
        event = json.loads(line) if line.endswith(b"\n") else {"user": {}}  # the last line may be half written
        if event["user"].get("username") != user:
            continue
        if "objectRef" not in event:
            paths.add(event["requestURI"].partition("?")[0])
            continue
        asked = _asked(event)
        rights |= asked
        denied |= asked if event["responseStatus"]["code"] == _FORBIDDEN else set()
    return Uses(
        frozenset(rights), frozenset(denied), frozenset(path for path in paths if not path.startswith(_DISCOVERY))
    )


def _asked(event: Mapping[str, Any]) -> set[Right]:
    at = event["objectRef"]
    resource = at["resource"] + (f"/{at['subresource']}" if "subresource" in at else "")
    place = (at.get("namespace", ""), at.get("name", ""))
    verbs = {event["verb"]}
    if event["verb"] == "patch" and event["responseStatus"]["code"] == _CREATED:
        verbs.add("create")  # a server-side apply that made the object needs both
    return {Right(resource, at.get("apiGroup", ""), verb, *place) for verb in verbs}
