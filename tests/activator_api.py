"""The API server as an activator sees it: two kinds, lists, watches, applies of status.demand, merge patches. A fake at
the HTTP seam, kept to what tests/apiserver/test_activator_rights.py shows of a real one."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from modelfleet.api import names

Object = dict[str, Any]
Address = tuple[str, str, str]  # plural, namespace, name

SPACE = "chat"


class ApiServer:
    """Objects by address. `down`: every request gets 503, and watches end."""

    def __init__(self) -> None:
        self.url = ""
        self.down = False
        self.writes: list[tuple[str, Object]] = []
        """Accepted writes: the name and what was sent."""
        self.refuse_writes = 0
        """So many writes are answered 500 and not done."""
        self._objects: dict[Address, Object] = {}
        self._demand: dict[Address, dict[str, list[Object]]] = {}
        self._versions = itertools.count(1)
        self._watchers: list[tuple[str, asyncio.Queue[Object | None]]] = []
        self._past: list[tuple[str, Object]] = []

    # What tests do

    def put(self, plural: str, item: Object) -> None:
        """Creates or replaces an object."""
        address = plural, item["metadata"]["namespace"], item["metadata"]["name"]
        kind = "MODIFIED" if address in self._objects else "ADDED"
        self._store(address, item, kind)

    def remove(self, plural: str, name: str, namespace: str = SPACE) -> None:
        """Deletes an object."""
        self._demand.pop((plural, namespace, name), None)
        self._tell(plural, "DELETED", self._objects.pop((plural, namespace, name)))

    def get(self, plural: str, name: str, namespace: str = SPACE) -> Object:
        """An object as it is."""
        return self._objects[plural, namespace, name]

    def demand(self, name: str) -> dict[str, int]:
        """status.demand of a ModelDeployment: what waits, by activator."""
        status = self.get(names.DEPLOYMENT_PLURAL, name).get("status", {})
        return {entry["activator"]: entry["waiting"] for entry in status.get("demand", [])}

    def endpoints(self, name: str) -> list[str]:
        """The addresses in a slice."""
        found = self.get("endpointslices", name).get("endpoints") or []
        return [address for endpoint in found for address in endpoint["addresses"]]

    def fall(self) -> None:
        """The API server is away from now on."""
        self.down = True
        for _, queue in self._watchers:
            queue.put_nowait(None)

    def kubeconfig(self, folder: Path) -> Path:
        """A file that leads here."""
        path = folder / "kubeconfig"
        config = {
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": {"token": "secret"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
        path.write_text(json.dumps(config))
        return path

    # What is served

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if self.down:
            return web.json_response({"message": "the server is down"}, status=503)
        parts = request.path.strip("/").split("/")[3:]  # after apis/GROUP/VERSION
        namespace = None
        if parts[0] == "namespaces":
            _, namespace, *parts = parts
        plural, *rest = parts
        if request.method == "PATCH":
            return await self._patched(request, (plural, str(namespace), rest[0]))
        found = [item for key, item in self._objects.items() if _selected(request, key, item, plural, namespace)]
        if "watch" in request.query:
            return await self._watch(request, plural, namespace)
        version = str(next(self._versions))
        return web.json_response({"items": found, "metadata": {"resourceVersion": version}})

    async def _patched(self, request: web.Request, address: Address) -> web.Response:
        sent = json.loads(await request.read())
        stored = self._objects.get(address)
        if self.refuse_writes:
            self.refuse_writes -= 1
            return web.json_response({"message": "an internal error"}, status=500)
        if stored is None:
            return web.json_response({"message": "not found"}, status=404)
        if sent["metadata"].get("resourceVersion") not in (None, stored["metadata"]["resourceVersion"]):
            return web.json_response({"message": "the object has been modified"}, status=409)
        if sent["metadata"].get("uid") not in (None, stored["metadata"]["uid"]):
            return web.json_response({"message": "uid mismatch"}, status=409)
        self.writes.append((address[2], sent))
        changed = {**stored}
        if "apply" in request.content_type:
            owned = self._demand.setdefault(address, {})
            owned[request.query["fieldManager"]] = sent["status"]["demand"]
            told = [entry for entries in owned.values() for entry in entries]
            changed["status"] = {**stored.get("status", {}), "demand": told}
        else:
            changed["endpoints"] = sent["endpoints"]
        self._store(address, changed, "MODIFIED")
        return web.json_response(self._objects[address])

    async def _watch(self, request: web.Request, plural: str, namespace: str | None) -> web.StreamResponse:
        queue: asyncio.Queue[Object | None] = asyncio.Queue()
        for told, event in self._past:  # what happened since the list is told too
            if told == plural:
                queue.put_nowait(event)
        watcher = plural, queue
        self._watchers.append(watcher)
        response = web.StreamResponse()
        await response.prepare(request)
        since = int(request.query["resourceVersion"])
        try:
            while (event := await queue.get()) is not None:
                item = event["object"]
                place = plural, item["metadata"]["namespace"], item["metadata"]["name"]
                new = int(item["metadata"]["resourceVersion"]) > since
                if new and _selected(request, place, item, plural, namespace):
                    await response.write(json.dumps(event).encode() + b"\n")
        finally:
            self._watchers.remove(watcher)
        return response

    def _store(self, address: Address, item: Object, kind: str) -> None:
        uid = item["metadata"].get("uid", f"uid-{address[2]}")
        metadata = {**item["metadata"], "uid": uid, "resourceVersion": str(next(self._versions))}
        self._objects[address] = {**item, "metadata": metadata}
        self._tell(address[0], kind, self._objects[address])

    def _tell(self, plural: str, kind: str, item: Object) -> None:
        if kind == "DELETED":
            item = {**item, "metadata": {**item["metadata"], "resourceVersion": str(next(self._versions))}}
        event = {"type": kind, "object": item}
        self._past.append((plural, event))
        for watched, queue in self._watchers:
            if watched == plural:
                queue.put_nowait(event)


def _selected(request: web.Request, at: Address, item: Object, plural: str, namespace: str | None) -> bool:
    if at[0] != plural or (namespace is not None and at[1] != namespace):
        return False
    selector = request.query.get("labelSelector", "")
    key, equals, value = selector.partition("=")
    labels = item["metadata"].get("labels", {})
    return not selector or (labels.get(key) == value if equals else key in labels)


@asynccontextmanager
async def api_server() -> AsyncIterator[ApiServer]:
    """A running one."""
    made = ApiServer()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", made.handle)
    async with TestServer(app) as running:
        made.url = str(running.make_url("")).rstrip("/")
        yield made


def deployment(name: str, port: int, *, waits: str = "60s", **status: Any) -> Object:
    """A ModelDeployment at zero whose requests come to `port`; `status` as the operator writes it."""
    zero = {"state": "AtZero", "activatorPort": port, **status.pop("toZero", {})}
    return {
        "metadata": {"name": name, "namespace": SPACE, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "model": {"servedNames": [f"{name}-model"]},
            "scaling": {"maxReplicas": 3, "toZero": {"firstCallerWaits": waits}},
        },
        "status": {"toZero": zero, **status},
    }


def activator_slice(name: str, port: int) -> Object:
    """The slice that points a model's Service to activators, as the operator makes it."""
    return _slice(name, names.activator_slice(name), names.ACTIVATOR, port, [])


def workers_slice(name: str, addresses: Mapping[str, int], *, ready: bool = True) -> Object:
    """The slice in which Kubernetes lists a model's workers; all have one port."""
    endpoints = [{"addresses": [host], "conditions": {"ready": ready}} for host in addresses]
    port = next(iter(addresses.values()), 8000)
    return _slice(name, f"{name}-x7f2a", "endpointslice-controller.k8s.io", port, endpoints)


def _slice(service: str, name: str, manager: str, port: int, endpoints: list[Object]) -> Object:
    labels = {
        names.DEPLOYMENT_LABEL: service,
        names.SERVICE_NAME_LABEL: service,
        names.SLICE_MANAGER_LABEL: manager,
    }
    return {
        "metadata": {"name": name, "namespace": SPACE, "labels": labels},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": port, "protocol": "TCP"}],
        "endpoints": endpoints,
    }
