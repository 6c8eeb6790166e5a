"""The one way to the API server. I/O. Everything above it sees values, never HTTP."""

import asyncio
import json
import random
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Protocol

import aiohttp
from kubernetes.aio.client import ApiClient, Configuration

from modelfleet.api import names
from modelfleet.controller.rate import Rate
from modelfleet.controller.resources import Resource, resource_of
from modelfleet.core.effects import Manifest
from modelfleet.core.snapshot import Raw

_PATCHES = {"patch": "application/merge-patch+json", "replace": "application/json-patch+json"}
_TIMEOUT_S = 30.0
# Where a request was swallowed, asking anew helps; a write may wait for admission webhooks, which have 30 s.
_READ_TIMEOUTS_S = {"discover": 5.0, "get": 15.0, "list": 15.0}


@dataclass(frozen=True)
class Written:
    """Done; `object` is what the server stored (of a DELETE: what it answered)."""

    object: Raw


@dataclass(frozen=True)
class Missing:
    """404: there is no such object (or namespace)."""

    message: str


@dataclass(frozen=True)
class Conflict:
    """409: the name is held by another object, or the object is not the one that was read."""

    message: str


@dataclass(frozen=True)
class Refused:
    """400, 403, 422: the server does not take this object as it is, and would not take it again at once.

    Schema, admission (pod security, quota, a policy) or the operator's own rights; the message says which.
    """

    message: str


WriteResult = Written | Missing | Conflict | Refused


class ApiError(Exception):
    """The API server could not be asked, or answered with an error that may pass. One sentence, no traceback needed."""

    def __init__(self, message: str, *, status: int = 0, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.status = status  # 0: no answer
        self.retry_after_s = retry_after_s


@dataclass(frozen=True)
class Call:
    """One finished request, for the metrics. `code` 0: no answer."""

    verb: str
    kind: str
    code: int
    duration_s: float


class Cluster(Protocol):
    """What the controller may ask of a cluster. Every method raises ApiError."""

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Raw | None:
        """The object as it is now (a consistent read); None if there is none."""

    async def list(
        self, resource: Resource, namespace: str | None = None, labels: str | None = None
    ) -> tuple[Raw, ...]:
        """All objects of a kind, of one namespace or of all, that match the label selector (a consistent read)."""

    async def create(self, manifest: Manifest) -> WriteResult:
        """POST; a field that the schema does not know is Refused."""

    async def apply(self, manifest: Manifest, uid: str) -> WriteResult:
        """Forced server-side apply on our child that was read with this uid; never creates, never takes over.

        ValueError: the manifest names no controller. Applying without uid and owner would take over foreign objects.
        """

    async def apply_status(self, manifest: Manifest, manager: str = "") -> WriteResult:
        """Forced server-side apply of `manifest`'s status alone; Conflict unless it is still at `resourceVersion`.

        `manager`: in whose name, instead of our own.
        """

    async def merge(self, resource: Resource, name: str, namespace: str, patch: Manifest, sub: str = "") -> WriteResult:
        """JSON merge patch on an object or its subresource `sub`; Conflict if it names another resourceVersion."""

    async def delete(
        self, resource: Resource, name: str, namespace: str, uid: str, grace_s: int | None = None
    ) -> WriteResult:
        """DELETE in the background, only if the object still has this uid. `grace_s`: instead of the pod's own."""

    async def served(self, group_version: str) -> frozenset[str]:
        """The plurals that the server serves under `group/version`; empty if it does not know it."""


@dataclass(frozen=True)
class Managers:
    """The field managers of a process: of objects, and of the status of ModelDeployments."""

    objects: str
    status: str


_OPERATOR = Managers(names.FIELD_MANAGER, names.STATUS_MANAGER)


class KubernetesCluster:
    """Cluster on the official client: its configuration and connection, raw JSON both ways.

    `write_left_s` tells for how many seconds from now this process may write. It is asked before each write, which is
    then not sent (ApiError) or not waited for any longer: the one place that keeps a former leader from writing.
    `rate` limits what is sent; None: nothing does. `managers` own the fields that it writes.
    """

    def __init__(
        self,
        configuration: Configuration,
        observe: Callable[[Call], None] = lambda _: None,
        write_left_s: Callable[[], float] = lambda: _TIMEOUT_S,
        rate: Rate | None = None,
        managers: Managers = _OPERATOR,
    ) -> None:
        self._client = ApiClient(configuration)
        self._managers = managers
        self._client.user_agent = "modelfleet"
        self._observe, self._write_left_s, self._rate = observe, write_left_s, rate
        # As many requests in flight as a small API server serves without queueing us (kopf-k8s.md: 16 to 32 measured).
        self._slots = asyncio.Semaphore(32)

    async def __aenter__(self) -> "KubernetesCluster":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Raw | None:
        answer = await self._call(_Request("GET", "get", resource, resource.path(namespace, name)))
        if answer.status == 404:
            return None
        return answer.body_or_raise()

    async def list(
        self, resource: Resource, namespace: str | None = None, labels: str | None = None
    ) -> tuple[Raw, ...]:
        query = {"limit": "500"} | ({"labelSelector": labels} if labels else {})
        items: list[Raw] = []
        restarts = 0
        while True:
            answer = await self._call(_Request("GET", "list", resource, resource.path(namespace), query))
            if answer.status == 410 and restarts < 3:  # the pages' snapshot expired: begin again, never mix two
                restarts += 1
                items.clear()
                query.pop("continue", None)
                continue
            body = answer.body_or_raise()
            # Items of a list of built-in kinds come without these two.
            items += ({"apiVersion": resource.api_version, "kind": resource.kind, **item} for item in body["items"])
            token = body.get("metadata", {}).get("continue")
            if not token:
                return tuple(items)
            query["continue"] = token

    async def create(self, manifest: Manifest) -> WriteResult:
        resource, namespace, _ = _locate(manifest)
        query = {"fieldManager": self._managers.objects, "fieldValidation": "Strict"}
        return _written(
            await self._call(_Request("POST", "create", resource, resource.path(namespace), query, manifest))
        )

    async def apply(self, manifest: Manifest, uid: str) -> WriteResult:
        require_controller(manifest)
        pinned = {**manifest, "metadata": {**manifest["metadata"], "uid": uid}}
        return await self._apply(pinned, manager=self._managers.objects)

    async def install(self, manifest: Manifest) -> WriteResult:
        """Create, or replace the spec of, an object that belongs to the installation itself: a CRD.

        Absent, it is applied, because a create by PATCH can be granted by name (a POST cannot). Present, its spec is
        replaced whole: a forced apply would leave fields behind that Helm's client wrote and we no longer have.
        """
        resource, namespace, name = _locate(manifest)
        stored = await self.get(resource, name, namespace)
        if stored is None:
            return await self._apply(manifest, manager=self._managers.objects)
        patch = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": stored["metadata"]["resourceVersion"]},
            {"op": "replace", "path": "/spec", "value": manifest["spec"]},
        ]
        query = {"fieldManager": self._managers.objects, "fieldValidation": "Strict"}
        request = _Request("PATCH", "replace", resource, resource.path(namespace, name), query, patch)
        return _written(await self._call(request))

    async def apply_status(self, manifest: Manifest, manager: str = "") -> WriteResult:
        return await self._apply(manifest, manager=manager or self._managers.status, subresource="status")

    async def _apply(self, manifest: Manifest, *, manager: str, subresource: str | None = None) -> WriteResult:
        resource, namespace, name = _locate(manifest)
        query = {"fieldManager": manager, "force": "true", "fieldValidation": "Strict"}
        path = resource.path(namespace, name, subresource)
        verb = "apply" if subresource is None else f"apply_{subresource}"
        return _written(await self._call(_Request("PATCH", verb, resource, path, query, manifest)))

    async def merge(self, resource: Resource, name: str, namespace: str, patch: Manifest, sub: str = "") -> WriteResult:
        path, query = resource.path(namespace, name, sub), {"fieldManager": self._managers.objects}
        return _written(await self._call(_Request("PATCH", "patch", resource, path, query, patch)))

    async def delete(
        self, resource: Resource, name: str, namespace: str, uid: str, grace_s: int | None = None
    ) -> WriteResult:
        path = resource.path(namespace, name)
        body: dict[str, Any] = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        if grace_s is not None:
            body["gracePeriodSeconds"] = grace_s
        return _written(await self._call(_Request("DELETE", "delete", resource, path, {}, body)))

    async def served(self, group_version: str) -> frozenset[str]:
        request = _Request("GET", "discover", Resource(group_version, "APIResourceList", ""), f"/apis/{group_version}")
        answer = await self._call(request)
        if answer.status == 404:
            return frozenset()
        return frozenset(item["name"] for item in answer.body_or_raise()["resources"])

    async def _call(self, request: "_Request") -> "_Answer":
        """Sends, waits out 429 (the server did not act on it) a few times, and turns what may pass into ApiError."""
        for attempt in range(4):
            if self._rate is not None:
                await self._rate.wait()
            async with self._slots:
                answer = await self._send(request)
            wait_s = answer.retry_after_s
            if answer.status != 429 or attempt == 3 or wait_s > 10.0:
                break
            await asyncio.sleep(wait_s + random.random() * wait_s / 2)  # spread: everyone was told the same second
        if answer.status in (401, 429) or answer.status >= 500:
            raise ApiError(f"{request}: {answer.message}", status=answer.status, retry_after_s=answer.retry_after_s)
        return answer

    async def _send(self, request: "_Request") -> "_Answer":
        loop = asyncio.get_running_loop()
        started, code = loop.time(), 0
        try:
            method, url, headers, _, _ = await self._client.param_serialize(
                method=request.method,
                resource_path=request.path,
                query_params=list(request.query.items()),
                header_params={"Accept": "application/json", "Content-Type": request.content_type},
                auth_settings=["BearerToken"],
            )
            async with asyncio.timeout(self._limit_s(request)), AsyncExitStack() as stack:
                response = await self._client.rest_client.request(
                    method,
                    url,
                    headers=headers,
                    body=json.dumps(request.body) if request.method == "POST" else request.body,
                    _request_timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S, connect=10),
                )
                stack.callback(response.response.release)
                code = response.status
                return _Answer(str(request), code, await response.read(), response.headers.get("Retry-After"))
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise ApiError(f"{request}: no answer ({type(error).__name__}: {error})".replace(": )", ")")) from error
        finally:
            self._observe(Call(request.verb, request.resource.kind, code, loop.time() - started))

    def _limit_s(self, request: "_Request") -> float:
        """How long the request may take: a write that waits for its connection must not be sent after the limit."""
        if request.verb in _READ_TIMEOUTS_S:
            return _READ_TIMEOUTS_S[request.verb]
        left_s = self._write_left_s()
        if left_s <= 0:
            raise ApiError(f"{request}: not sent, because this process no longer leads")
        return min(left_s, _TIMEOUT_S)


@dataclass(frozen=True)
class _Request:
    method: str
    verb: str
    resource: Resource
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None

    @property
    def content_type(self) -> str:
        if self.method == "POST":
            # The server spells YAML (JSON is YAML) anew at once. JSON it keeps as posted where a field is free-form, a
            # ControllerRevision's data; any later patch spells it anew and is refused, because that data is immutable.
            return "application/yaml"
        if self.method != "PATCH":
            return "application/json"
        return _PATCHES.get(self.verb, "application/apply-patch+yaml")

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


@dataclass(frozen=True)
class _Answer:
    request: str
    status: int
    content: bytes
    retry_after: str | None

    @property
    def retry_after_s(self) -> float:
        """What the server asked for, 1 s if it asked for nothing readable (it may send an HTTP date)."""
        return float(self.retry_after) if self.retry_after and self.retry_after.isdecimal() else 1.0

    @property
    def message(self) -> str:
        """The server's own sentence, from its Status object if it sent one."""
        try:
            return str(json.loads(self.content)["message"])
        except (ValueError, KeyError, TypeError):
            return f"HTTP {self.status} {self.content[:200].decode(errors='replace')}".strip()

    @property
    def is_another_object(self) -> bool:
        """The server found an object with another uid than the applied one: 422 on metadata.uid (run on 1.36.3)."""
        try:
            causes = json.loads(self.content)["details"]["causes"]
            return self.status == 422 and any(cause.get("field") == "metadata.uid" for cause in causes)
        except (ValueError, KeyError, TypeError):
            return False

    def body_or_raise(self) -> dict[str, Any]:
        if self.status >= 300:
            raise ApiError(f"{self.request}: {self.message}", status=self.status)
        try:
            body = json.loads(self.content)
        except ValueError as error:
            raise ApiError(f"{self.request}: the answer is not JSON", status=self.status) from error
        return dict(body)


def require_controller(manifest: Manifest) -> None:
    """ValueError unless the manifest names its controller."""
    owners = manifest["metadata"].get("ownerReferences", ())
    if not any(owner.get("controller") for owner in owners):
        raise ValueError(
            f"{manifest['kind']} {manifest['metadata']['name']} names no controller and must not be applied"
        )


def _locate(manifest: Manifest) -> tuple[Resource, str | None, str]:
    metadata = manifest["metadata"]
    return resource_of(manifest["apiVersion"], manifest["kind"]), metadata.get("namespace"), metadata["name"]


def _written(answer: _Answer) -> WriteResult:
    if answer.is_another_object:
        return Conflict(answer.message)
    match answer.status:
        case 404:
            return Missing(answer.message)
        case 409:
            return Conflict(answer.message)
        case 400 | 403 | 422:
            return Refused(answer.message)
    return Written(answer.body_or_raise())
