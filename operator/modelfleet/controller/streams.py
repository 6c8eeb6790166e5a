"""Pages of a list, and a watch, beside controller.cluster: what the inventory reads the whole cluster by. I/O.

On connections of their own: a watch lives for minutes, and a long list never waits behind reconciles.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Protocol

import aiohttp
from kubernetes.aio.client import ApiClient, Configuration

from modelfleet.controller.cluster import ApiError
from modelfleet.controller.resources import Resource
from modelfleet.core.snapshot import Raw

PAGE = 250
"""Objects in a page: 10 kB each, they are parsed in a few hundredths of a second, in which nothing else runs."""

_WATCH_S = 290
SILENT_S = 90.0
"""A watch that says nothing for so long is begun anew: the server sends a bookmark each minute."""

_PAGE_S = 30.0

_HEADERS_S = 15.0
"""Until an answer begins: a watch that was swallowed is asked for anew."""

_WORDS_S = 5.0


@dataclass(frozen=True)
class Page:
    """A part of a list. `version` is that of the whole list; `token` asks for the next page, empty in the last."""

    items: tuple[Raw, ...]
    version: str
    token: str


@dataclass(frozen=True)
class Change:
    """An event of a watch: ADDED, MODIFIED, DELETED or BOOKMARK. A bookmark's object has nothing but its version."""

    type: str
    object: Raw


class GoneError(Exception):
    """410: the versions that were asked for are no longer kept; list anew."""


class Streams(Protocol):
    """What an inventory may ask. Every method raises ApiError, or GoneError where the server says 410."""

    async def page(self, resource: Resource, token: str = "", fields: str = "") -> Page:
        """One page of all objects of a kind in all namespaces that match the field selector."""

    def watch(self, resource: Resource, version: str, fields: str = "") -> AsyncIterator[Change]:
        """What happens after `version`, until the server ends the stream."""


class KubernetesStreams:
    """Streams on the official client's configuration and connection.

    `namespace` and `labels` (a label selector) narrow every list and watch; None: all namespaces.
    """

    def __init__(self, configuration: Configuration, namespace: str | None = None, labels: str = "") -> None:
        self._namespace, self._labels = namespace, labels
        self._client = ApiClient(configuration)
        self._client.user_agent = "modelfleet"

    async def __aenter__(self) -> "KubernetesStreams":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    async def page(self, resource: Resource, token: str = "", fields: str = "") -> Page:
        query = {"limit": str(PAGE)} | _given({"continue": token, "fieldSelector": fields})
        timeout = aiohttp.ClientTimeout(total=_PAGE_S, connect=10)
        async with AsyncExitStack() as stack:
            response = await self._open(stack, resource, query, timeout)
            try:
                body = json.loads(await response.read())
                items, metadata = tuple(body["items"]), dict(body["metadata"])
            except (KeyError, TypeError) as error:
                raise ApiError(f"list {resource.plural}: the answer is no list") from error
            except (aiohttp.ClientError, OSError, ValueError, TimeoutError) as error:
                raise ApiError(f"list {resource.plural}: the answer broke off ({type(error).__name__})") from error
        return Page(items, metadata.get("resourceVersion", ""), metadata.get("continue", ""))

    async def watch(self, resource: Resource, version: str, fields: str = "") -> AsyncIterator[Change]:
        query = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(_WATCH_S)}
        query |= {"resourceVersion": version} | _given({"fieldSelector": fields})
        timeout = aiohttp.ClientTimeout(total=None, connect=10, sock_read=SILENT_S)
        async with AsyncExitStack() as stack:
            response = await self._open(stack, resource, query, timeout)
            async for line in _lines(response, resource):
                yield _change(line, resource)

    async def _open(
        self, stack: AsyncExitStack, resource: Resource, query: dict[str, str], timeout: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        what = f"{'watch' if 'watch' in query else 'list'} {resource.plural}"
        try:
            method, url, headers, _, _ = await self._client.param_serialize(
                method="GET",
                resource_path=resource.path(self._namespace),
                query_params=list((query | _given({"labelSelector": self._labels})).items()),
                header_params={"Accept": "application/json"},
                auth_settings=["BearerToken"],
            )
            async with asyncio.timeout(_HEADERS_S if "watch" in query else None):
                answer = await self._client.rest_client.request(method, url, headers=headers, _request_timeout=timeout)
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise ApiError(f"{what}: no answer ({type(error).__name__}: {error})".replace(": )", ")")) from error
        response: aiohttp.ClientResponse = answer.response
        stack.callback(response.close if "watch" in query else response.release)
        if response.status == 410:
            raise GoneError
        if response.status >= 300:
            retry_after = response.headers.get("Retry-After", "")
            wait_s = float(retry_after) if retry_after.isdecimal() else 0.0
            words = await _words(response)
            raise ApiError(f"{what}: HTTP {response.status}{words}", status=response.status, retry_after_s=wait_s)
        return response


async def _words(response: aiohttp.ClientResponse) -> str:
    """What the server says to its refusal, as the end of a sentence; empty where it says nothing in time."""
    try:
        async with asyncio.timeout(_WORDS_S):
            return f", {json.loads(await response.read())['message']}"
    except (aiohttp.ClientError, OSError, ValueError, KeyError, TypeError):  # a TimeoutError is an OSError
        return ""


async def _lines(response: aiohttp.ClientResponse, resource: Resource) -> AsyncIterator[bytes]:
    """The lines of a stream, however long one is."""
    rest = b""
    try:
        async for chunk in response.content.iter_any():
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                yield line
    except (TimeoutError, aiohttp.ClientError, OSError) as error:
        raise ApiError(f"watch {resource.plural}: it broke off ({type(error).__name__})") from error


def _change(line: bytes, resource: Resource) -> Change:
    try:
        event: dict[str, Any] = json.loads(line)
        kind, seen = str(event["type"]), dict(event["object"])
    except (ValueError, KeyError, TypeError) as error:
        raise ApiError(f"watch {resource.plural}: an event cannot be read") from error
    if kind == "ERROR":
        if seen.get("code") == 410:
            raise GoneError
        raise ApiError(f"watch {resource.plural}: {seen.get('message', 'an error')}", status=int(seen.get("code", 0)))
    return Change(kind, seen)


def _given(query: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in query.items() if value}
