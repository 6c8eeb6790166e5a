"""Servers of weights on loopback with faults to order: a model hub, an object store, a registry, as their clients see
them. What is sent is logged, so that a test can count bytes."""

import hashlib
import json
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_right"
USER, PASSWORD = "user", "right"


@dataclass(frozen=True)
class Fault:
    """What happens to one answer with content: it ends after `after` bytes by a reset, an orderly end, or silence of
    `silent_s`; or it is a `status` with `headers` and `body` instead."""

    after: int = 0
    how: str = "reset"
    silent_s: float = 0.0
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b"no"


@dataclass
class Shelf:
    """What a server has and does. `faults` are used up one an answer, by the end of the path; `sent` is (path, first
    byte, bytes sent) of every answer with content. `let_in` are the headers with a registry's tokens that are good now,
    of `tokens` that it gave; with `worthless` none is."""

    files: dict[str, bytes]
    commit: str = COMMIT
    private: bool = False
    ranges: bool = True
    etags: bool = True
    encrypted: bool = False
    wrong_checksums: frozenset[str] = frozenset()
    faults: dict[str, list[Fault]] = field(default_factory=dict)
    sent: list[tuple[str, int, int]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    authorizations: set[str] = field(default_factory=set)
    bytes_per_s: float = 0.0
    let_in: set[str] = field(default_factory=set)
    tokens: int = 0
    worthless: bool = False
    on_refused: Callable[[], object] = lambda: None
    on_fault: Callable[[str], None] = lambda _: None
    lock: Any = field(default_factory=threading.Lock)

    def fault(self, path: str) -> Fault | None:
        with self.lock:
            for end, orders in self.faults.items():
                if path.endswith(end) and orders:
                    self.on_fault(path)
                    return orders.pop(0)
        return None

    def token(self) -> str:
        """Another token of a registry."""
        with self.lock:
            self.tokens += 1
            given = f"let-me-in-{self.tokens}"
            if not self.worthless:
                self.let_in.add(f"Bearer {given}")
        return given

    def sent_bytes(self, path: str = "") -> int:
        """Bytes of content that were sent for paths that end so."""
        return sum(count for name, _, count in self.sent if name.endswith(path))

    def listings(self) -> int:
        """How often somebody asked for the list of files."""
        return sum(1 for path in self.asked if "/api/models/" in path or "list-type=2" in path or "/manifests/" in path)


def tensors(seed: int, size: int) -> bytes:
    """A safetensors file with one tensor of so many bytes that look random."""
    block = hashlib.sha256(str(seed).encode()).digest()
    content = (block * (size // len(block) + 1))[:size]
    header = json.dumps({"weight": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return struct.pack("<Q", len(header)) + header + content


def model(shards: int = 2, size: int = 300_000) -> dict[str, bytes]:
    """A small model's files."""
    files = {
        "config.json": json.dumps({"architectures": ["LlamaForCausalLM"], "hidden_size": 64}).encode(),
        "tokenizer.json": b'{"version": "1.0"}',
    }
    for index in range(shards):
        files[f"model-{index + 1:05}-of-{shards:05}.safetensors"] = tensors(index, size + index)
    return files


class Handler(BaseHTTPRequestHandler):
    """The parts that the three dialects share."""

    protocol_version = "HTTP/1.1"
    shelf: Shelf

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.shelf.asked.append(self.path)
        self.shelf.authorizations.add(self.headers.get("Authorization", ""))
        self.answer(urlsplit(self.path))

    def answer(self, url: Any) -> None:
        raise NotImplementedError

    def say(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def say_json(self, value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.say(status, json.dumps(value).encode(), {"Content-Type": "application/json", **(headers or {})})

    def content(self, path: str, body: bytes, headers: Mapping[str, str]) -> None:
        """The file, or the range of it that is asked for, or the fault that was ordered."""
        fault = self.shelf.fault(path)
        if fault is not None and fault.status:
            return self.say(fault.status, fault.body, fault.headers)
        first, last, status = 0, len(body) - 1, 200
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        more: dict[str, str] = {}
        if match and self.shelf.ranges:
            first, last = int(match[1]), min(int(match[2] or last), last)
            if first > last:
                return self.say(416, b"", {})
            status, more = 206, {"Content-Range": f"bytes {first}-{last}/{len(body)}"}
        part = body[first : last + 1]
        self.send_response(status)
        for name, value in {"Content-Length": str(len(part)), **headers, **more}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return None
        count = len(part) if fault is None else min(fault.after, len(part))
        self._send(path, first, part[:count])
        if fault is not None:
            self._break(fault)
        return None

    def _send(self, path: str, first: int, part: bytes) -> None:
        done, step = 0, 16384
        try:
            while done < len(part):
                done += self.connection.send(part[done : done + step])
                if self.shelf.bytes_per_s:
                    time.sleep(step / self.shelf.bytes_per_s)
        except OSError:
            self.close_connection = True
        finally:
            with self.shelf.lock:
                self.shelf.sent.append((path, first, done))

    def _break(self, fault: Fault) -> None:
        time.sleep(fault.silent_s)
        if fault.how == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True


class HubHandler(Handler):
    """A model hub: /api/models/ORG/REPO/revision/REVISION and /ORG/REPO/resolve/COMMIT/PATH, whose content may be on
    another server."""

    sends_on = ""

    def answer(self, url: Any) -> None:
        path = unquote(url.path)
        if self.shelf.private and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self.say_json({"error": "Repository not found"}, 401, {"X-Error-Code": "RepoNotFound"})
        info = re.fullmatch(r"/api/models/org/model/revision/(.+)", path)
        if info:
            if info[1] not in ("main", "v1", self.shelf.commit):
                return self.say_json({"error": "Revision not found"}, 404, {"X-Error-Code": "RevisionNotFound"})
            return self._info()
        found = re.fullmatch(r"/org/model/resolve/([^/]+)/(.+)", path)
        if found and self.sends_on:
            return self.say(302, b"", {"Location": f"http://{self.sends_on}{url.path}"})
        if found and found[1] == self.shelf.commit and found[2] in self.shelf.files:
            return self.content(found[2], self.shelf.files[found[2]], {"ETag": '"x"'})
        return self.say_json({"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"})

    def _info(self) -> None:
        fault = self.shelf.fault("/info")
        if fault is not None:
            return self.say(fault.status, b"no", fault.headers)
        siblings = [self._sibling(path, body) for path, body in self.shelf.files.items()]
        return self.say_json({"id": "org/model", "sha": self.shelf.commit, "siblings": siblings})

    def _sibling(self, path: str, body: bytes) -> dict[str, Any]:
        blob = hashlib.sha1(b"blob %d\0" % len(body) + body).hexdigest()
        sibling: dict[str, Any] = {"rfilename": path, "size": len(body), "blobId": blob}
        if path.endswith((".safetensors", ".bin")):
            digest = hashlib.sha256(body).hexdigest()
            wrong = path in self.shelf.wrong_checksums
            sibling["lfs"] = {"sha256": "0" * 64 if wrong else digest, "size": len(body), "pointerSize": 130}
        return sibling


class StoreHandler(Handler):
    """An object store: bucket `weights`, ListObjectsV2 and GET with ranges. Signatures are looked at for their key."""

    def answer(self, url: Any) -> None:
        query = parse_qs(url.query, keep_blank_values=True)
        given = self.headers.get("Authorization", "") + "".join(query.get("X-Amz-Credential", []))
        if self.shelf.private and f"{USER}/" not in given:
            return self._error(403, "InvalidAccessKeyId")
        bucket, _, key = unquote(url.path).lstrip("/").partition("/")
        if bucket != "weights":
            return self._error(404, "NoSuchBucket")
        if "list-type" in query:
            return self._list(query.get("prefix", [""])[0])
        if key not in self.shelf.files:
            return self._error(404, "NoSuchKey")
        body = self.shelf.files[key]
        headers = {"ETag": self._etag(key, body)} if self.shelf.etags else {}
        if self.shelf.encrypted:
            headers["x-amz-server-side-encryption"] = "aws:kms"
        return self.content(key, body, headers)

    def _etag(self, key: str, body: bytes) -> str:
        digest = hashlib.md5(body).hexdigest()
        return f'"{"0" * 32 if key.split("/")[-1] in self.shelf.wrong_checksums or self.shelf.encrypted else digest}"'

    def _list(self, prefix: str) -> None:
        fault = self.shelf.fault("/info")
        if fault is not None:
            return self.say(fault.status, b"no", fault.headers)
        rows = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
            f"<ETag>{escape(self._etag(key, body))}</ETag><Size>{len(body)}</Size></Contents>"
            for key, body in sorted(self.shelf.files.items())
            if key.startswith(prefix)
        )
        text = f'<?xml version="1.0"?><ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>'
        return self.say(200, text.encode(), {"Content-Type": "application/xml"})

    def _error(self, status: int, code: str) -> None:
        text = f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>no</Message></Error>'
        self.say(status, text.encode(), {"Content-Type": "application/xml"})


class RegistryHandler(Handler):
    """A registry with a token service: repository `org/model`, tag `v1`."""

    archives = False

    def answer(self, url: Any) -> None:
        if url.path == "/token":
            basic = self.headers.get("Authorization", "")
            if basic != "Basic dXNlcjpyaWdodA==":
                return self.say(401, b"no", {})
            return self.say_json({"token": self.shelf.token(), "expires_in": 300})
        fault = self.shelf.fault("/info") if "/manifests/" in url.path else None
        if fault is not None:
            return self.say(fault.status, fault.body, fault.headers)
        if self.shelf.private and self.headers.get("Authorization") not in self.shelf.let_in:
            self.shelf.on_refused()
            realm = f"http://{self.headers['Host']}/token"
            challenge = f'Bearer realm="{realm}",service="test",scope="repository:org/model:pull"'
            return self.say(401, b"no", {"WWW-Authenticate": challenge})
        manifest = self._manifest()
        digest = f"sha256:{hashlib.sha256(manifest).hexdigest()}"
        if url.path in ("/v2/org/model/manifests/v1", f"/v2/org/model/manifests/{digest}"):
            return self.say(200, manifest, {"Content-Type": "application/vnd.oci.image.manifest.v1+json"})
        for path, body in self.shelf.files.items():
            if url.path == f"/v2/org/model/blobs/{self._digest(path, body)}":
                return self.content(path, body, {})
        return self.say(404, b"no", {})

    def _digest(self, path: str, body: bytes) -> str:
        wrong = path in self.shelf.wrong_checksums
        return f"sha256:{'0' * 64 if wrong else hashlib.sha256(body).hexdigest()}"

    def _manifest(self) -> bytes:
        kind = "application/vnd.oci.image.layer.v1.tar+gzip" if self.archives else "application/octet-stream"
        layers = [
            {
                "mediaType": kind,
                "digest": self._digest(path, body),
                "size": len(body),
                "annotations": {"org.opencontainers.image.title": path},
            }
            for path, body in self.shelf.files.items()
        ]
        return json.dumps({"schemaVersion": 2, "layers": layers}).encode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that is killed is what the tests are about."""


@contextmanager
def serving(handler: type[Handler], shelf: Shelf, host: str = "127.0.0.1", **more: Any) -> Iterator[str]:
    """The server's address, HOST:PORT."""
    bound = type("Bound", (handler,), {"shelf": shelf, **more})
    server = _Server((host, 0), bound)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"{host}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
