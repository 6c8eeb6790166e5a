"""The benchmark's own hands on the API server: creates many objects, and sees when their pods come to be."""

import asyncio
import base64
import json
import ssl
import tempfile
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

_METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_AT_A_TIME = 10


@dataclass
class Seen:
    """When each pod was first seen, and which object it belongs to; monotonic seconds."""

    label: str
    at_s: dict[str, tuple[str, float]] = field(default_factory=dict)


class Client:
    """Requests as administrator, over one session."""

    def __init__(self, kubeconfig: Path) -> None:
        config = json.loads(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._server = cluster["server"]
        self._tls = ssl.create_default_context(cadata=_decoded(cluster["certificate-authority-data"]).decode())
        with tempfile.NamedTemporaryFile(dir=kubeconfig.parent) as pem:  # ssl reads a key only from a file
            pem.write(_decoded(user["client-certificate-data"]) + _decoded(user["client-key-data"]))
            pem.flush()
            self._tls.load_cert_chain(pem.name)
        self._stack = AsyncExitStack()
        self._session: aiohttp.ClientSession

    async def __aenter__(self) -> "Client":
        connector = aiohttp.TCPConnector(limit=0, ssl=self._tls)
        session = aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None))
        self._session = await self._stack.enter_async_context(session)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def create_all(self, path: str, manifests: Iterable[dict[str, Any]]) -> dict[str, float]:
        """Creates the objects, some at a time; when each request was sent, by name."""
        slots, sent_s = asyncio.Semaphore(_AT_A_TIME), {}

        async def create(manifest: dict[str, Any]) -> None:
            async with slots:
                sent_s[manifest["metadata"]["name"]] = time.monotonic()
                async with self._session.post(self._server + path, json=manifest) as answer:
                    assert answer.status == 201, await answer.text()

        await asyncio.gather(*(create(manifest) for manifest in manifests))
        return sent_s

    async def patch(self, path: str, body: dict[str, Any]) -> None:
        """A JSON merge patch."""
        headers = {"Content-Type": "application/merge-patch+json"}
        async with self._session.patch(self._server + path, data=json.dumps(body), headers=headers) as answer:
            assert answer.status == 200, await answer.text()

    async def delete_all(self, path: str) -> None:
        """Deletes a collection, its dependents in the background."""
        body = {"propagationPolicy": "Background"}
        async with self._session.delete(self._server + path, json=body) as answer:
            assert answer.status == 200, await answer.text()

    async def count(self, path: str) -> int:
        """How many objects there are in a collection, by reading one: to read thousands of them again and again would
        be most of what the server does."""
        found = await self._page(path, limit="1")
        return len(found["items"] or ()) + int(found["metadata"].get("remainingItemCount", 0))

    async def has(self, path: str, fields: str) -> bool:
        """Whether an object of a collection has such fields."""
        return bool((await self._page(path, fieldSelector=fields, limit="1"))["items"])

    async def items(self, path: str) -> list[dict[str, Any]]:
        """The objects of a collection, read in pages."""
        found: list[dict[str, Any]] = []
        token = ""
        while True:
            page = await self._page(path, limit="250", **({"continue": token} if token else {}))
            found += page["items"]
            token = page["metadata"].get("continue", "")
            if not token:
                return found

    async def _page(self, path: str, **query: str) -> dict[str, Any]:
        async with self._session.get(self._server + path, params=query) as answer:
            assert answer.status == 200, await answer.text()
            found: dict[str, Any] = await answer.json()
            return found

    async def watch_pods(self, namespace: str, seen: Seen) -> None:
        """Notes each new pod of a namespace, until cancelled. A watch that the server ends is begun anew."""
        while True:
            try:
                await self._watch_pods(f"{self._server}/api/v1/namespaces/{namespace}/pods?watch=true", seen)
            except aiohttp.ClientError as error:
                print(f"the benchmark's own watch broke: {error!r}")

    async def _watch_pods(self, url: str, seen: Seen) -> None:
        async with self._session.get(url, headers={"Accept": _METADATA_ONLY}, read_bufsize=2**22) as answer:
            async for line in answer.content:
                event = json.loads(line)
                metadata = event["object"]["metadata"]
                if event["type"] == "ADDED":
                    seen.at_s.setdefault(metadata["name"], (metadata["labels"][seen.label], time.monotonic()))


def _decoded(text: str) -> bytes:
    return base64.b64decode(text)
