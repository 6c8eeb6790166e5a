"""`oci://`: an artifact of a registry, whose layers are the model's files (`oras push`, ModelPack's raw layers).

The protocol is a handful of GETs (OCI distribution specification 1.1), so no client library: the one there is for
Python reads a blob whole, without a range and without a bound on silence.
"""

import base64
import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from threading import Lock
from typing import Any

import httpx2

from modelfleet_worker.failure import Reason
from modelfleet_worker.fetch import http
from modelfleet_worker.fetch.remote import (
    Algorithm,
    Body,
    Checksum,
    FetchError,
    Listing,
    RemoteFile,
    TransientError,
)
from modelfleet_worker.json_fields import parsed

_MANIFESTS = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
_PATHS = ("org.cncf.model.filepath", "org.opencontainers.image.title")
_MANIFEST_LIMIT_BYTES = 4 << 20  # the distribution specification's own
_TOKEN_LIMIT_BYTES = 1 << 20
_ASKED_S = 60.0
_DIGEST = "sha256:[0-9a-f]{64}"
_LOCAL = ("localhost", "127.0.0.1", "[::1]")


class Registry:
    """One repository at a tag or digest. `secret` may hold username and password, or a .dockerconfigjson. Several
    threads may read at a time."""

    def __init__(self, location: str, reference: str, secret: Mapping[str, str], client: httpx2.Client) -> None:
        self._host, _, self._repository = location.partition("/")
        self._reference, self._http = reference, client
        self._basic = _credentials(self._host, secret)
        self._authorization, self._asking = "", Lock()
        # As everywhere with registries: only one on this machine is asked without TLS.
        scheme = "http" if self._host.rpartition(":")[0] in _LOCAL or self._host in _LOCAL else "https"
        host = "registry-1.docker.io" if self._host == "docker.io" else self._host
        self._base = f"{scheme}://{host}/v2/{self._repository}"
        self._where = f"{location}{'@' if reference.startswith('sha256:') else ':'}{reference}"

    def listing(self) -> Listing:
        """The artifact's files; the revision is the manifest's digest."""
        text = self._manifest()
        digest = f"sha256:{hashlib.sha256(text).hexdigest()}"
        if self._reference.startswith("sha256:") and digest != self._reference:
            raise TransientError(f"the manifest of {self._where} has the digest {digest}")
        try:
            manifest = parsed(text, "its manifest", ValueError)
            layers = [_layer(each) for each in manifest["layers"]]
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise self._no_artifact("its manifest lists no layers") from error
        if any(path is None for path, _ in layers):
            raise self._no_artifact("its layers are archives or have no file names")
        return Listing(digest, tuple(replace(file, path=path) for path, file in layers if path is not None))

    @contextmanager
    def read(self, file: RemoteFile, offset: int, length: int | None = None) -> Iterator[Body]:
        """The blob of a file."""
        request = http.Request(f"{self._base}/blobs/{file.token}", f"{file.path} of {self._where}", {})
        with self._get(request, offset, length) as body:
            yield body

    def checksum(self, file: RemoteFile, headers: Mapping[str, str]) -> Checksum | None:
        """A blob's name is its checksum."""
        return file.checksum

    def _manifest(self) -> bytes:
        request = http.Request(
            f"{self._base}/manifests/{self._reference}", self._where, {"Accept": ", ".join(_MANIFESTS)}
        )
        with self._get(request, 0, None) as body:
            kind = body.headers.get("content-type", "").partition(";")[0]
            if kind not in _MANIFESTS:
                raise self._no_artifact(f"its manifest is {kind or 'of no stated type'}")
            text = _whole(body, _MANIFEST_LIMIT_BYTES)
        if text is None:
            raise self._no_artifact("its manifest is larger than 4 MiB")
        return text

    @contextmanager
    def _get(self, request: http.Request, offset: int, length: int | None) -> Iterator[Body]:
        with ExitStack() as opened:
            sent = self._authorization
            try:
                body = opened.enter_context(self._sent(request, sent, offset, length))
            except http.UnauthorizedError as error:
                refusal = error
            else:
                yield body
                return
            # Nothing was sent yet, or a token is over: those of Docker Hub and GitLab live for 300 s. Asked once more.
            yield opened.enter_context(self._sent(request, self._renewed(sent, refusal), offset, length))

    @contextmanager
    def _sent(self, request: http.Request, authorization: str, offset: int, length: int | None) -> Iterator[Body]:
        given = {"Authorization": authorization} if authorization else {}
        with http.get(self._http, replace(request, headers={**request.headers, **given}), offset, length) as body:
            yield body

    def _renewed(self, sent: str, refusal: http.UnauthorizedError) -> str:
        """The Authorization header to send after that one was refused. Threads that are refused at once share it; one
        that is fed its token byte by byte is not waited for. Raises the refusal where no other is to be had."""
        alone = self._asking.acquire(timeout=_ASKED_S)
        try:
            if self._authorization == sent:
                self._authorization = self._allowed(refusal)
            return self._authorization
        finally:
            if alone:
                self._asking.release()

    def _allowed(self, refusal: http.UnauthorizedError) -> str:
        """The Authorization header that the registry asks for."""
        if not refusal.challenge:
            raise refusal
        if refusal.challenge.lower().startswith("basic"):
            if not self._basic:
                raise http.refused(f"The registry asks for credentials for {self._where}")
            return f"Basic {self._basic}"
        asked = dict(re.findall('([a-z]+)="([^"]*)"', refusal.challenge))
        return f"Bearer {self._token(asked)}"

    def _token(self, asked: Mapping[str, str]) -> str:
        realm = asked.get("realm", "")
        if not realm.startswith(("https://", "http://")):
            raise http.refused(f"The registry refuses {self._where} and does not say how to be let in")
        if self._base.startswith("https://") and not realm.startswith("https://"):
            raise http.refused(f"The registry of {self._where} wants the credentials sent without TLS")
        query = {key: asked[key] for key in ("service", "scope") if key in asked}
        headers = {"Authorization": f"Basic {self._basic}"} if self._basic else {}
        try:
            url = str(httpx2.URL(realm).copy_merge_params(query))
            with http.get(self._http, http.Request(url, f"a token for {self._where}", headers), 0, None) as body:
                found = json.loads(_whole(body, _TOKEN_LIMIT_BYTES) or b"")
            return str(found.get("token") or found["access_token"])
        except httpx2.InvalidURL as error:
            raise TransientError(f"{self._where}: {http.said(error)}") from error
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise TransientError(f"the registry's token service gives no token for {self._where}") from error

    def _no_artifact(self, why: str) -> FetchError:
        return FetchError(
            Reason.MODEL_REFUSED,
            f"{self._where} is no artifact with a model's files: {why}.",
            "Push the files themselves: `oras push REGISTRY/REPOSITORY:TAG config.json model.safetensors …`.",
        )


def _whole(body: Body, limit_bytes: int) -> bytes | None:
    """A short answer; None if it is longer than that. Raises TransientError if it does not end."""
    text, until = b"", time.monotonic() + _ASKED_S
    for chunk in body.chunks:
        text += chunk
        if len(text) > limit_bytes:
            return None
        if time.monotonic() > until:
            raise TransientError(f"the registry's answer is not whole within {_ASKED_S:g} s")
    return text


def _layer(layer: Mapping[str, Any]) -> tuple[str | None, RemoteFile]:
    digest, size, kind = str(layer["digest"]), int(layer["size"]), str(layer["mediaType"])
    if not re.fullmatch(_DIGEST, digest):
        raise ValueError("a digest that is not SHA-256")
    notes = layer.get("annotations") or {}
    path = next((str(notes[key]) for key in _PATHS if notes.get(key)), None)
    if re.search(r"(\.|\+)(tar|gzip|zstd)(\.|\+|$)", kind):
        path = None
    return path, RemoteFile("", size, Checksum(Algorithm.SHA256, digest.removeprefix("sha256:")), digest)


def _credentials(host: str, secret: Mapping[str, str]) -> str:
    """User and password in base64; empty where the secret has none for this registry."""
    if secret.get("username"):
        return base64.b64encode(f"{secret['username']}:{secret.get('password', '')}".encode()).decode()
    try:
        known = json.loads(secret.get(".dockerconfigjson", "{}")).get("auths", {})
        names = [host, f"https://{host}", f"https://{host}/v1/"]
        names += ["https://index.docker.io/v1/"] if host == "docker.io" else []
        entry: dict[str, Any] = next((known[name] for name in names if name in known), {})
        if entry.get("auth"):
            return str(entry["auth"])
        return base64.b64encode(f"{entry['username']}:{entry['password']}".encode()).decode() if entry else ""
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise http.refused("The Secret's .dockerconfigjson cannot be read") from error
