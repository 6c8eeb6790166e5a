"""A small client of the API server for the launcher itself: JSON in, JSON out, standard library only."""

import base64
import http.client
import json
import ssl
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from modelfleet_local.errors import LocalClusterError

_TIMEOUT_S = 10.0
_RBAC = "/apis/rbac.authorization.k8s.io/v1"


class ApiError(LocalClusterError):
    """The API server refused; `status` is the HTTP status code."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Api:
    """Requests with the credential of one kubeconfig. Each has its own connection: threads may share an Api."""

    def __init__(self, kubeconfig: Path) -> None:
        """Reads a kubeconfig as `pki.kubeconfig` writes them."""
        config = json.loads(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._address = urlsplit(cluster["server"]).netloc
        self._context = ssl.create_default_context(cadata=_decoded(cluster["certificate-authority-data"]).decode())
        # ssl reads a key only from a file
        with tempfile.NamedTemporaryFile(dir=kubeconfig.parent) as pem:
            pem.write(_decoded(user["client-certificate-data"]) + _decoded(user["client-key-data"]))
            pem.flush()
            self._context.load_cert_chain(pem.name)

    def get(self, path: str) -> Any:
        """The object or list at `path`."""
        return json.loads(self._request("GET", path))

    def healthy(self, path: str = "/readyz") -> bool:
        """Whether the server answers `path` with 200."""
        try:
            self._request("GET", path)
        except (OSError, http.client.HTTPException, ApiError):
            return False
        return True

    def create(self, path: str, content: Mapping[str, Any]) -> Any:
        """Creates an object in the collection at `path`; what the server made of it."""
        return json.loads(self._request("POST", path, json.dumps(content), "application/json"))

    def grant(self, user: str, rules: Sequence[Mapping[str, Any]]) -> None:
        """Lets `user` do what `rules` say, cluster-wide, by a ClusterRole and a binding of its name."""
        self.create(f"{_RBAC}/clusterroles", {"metadata": {"name": user}, "rules": list(rules)})
        self.bind(user, user)

    def bind(self, user: str, role: str) -> None:
        """Gives `user` the ClusterRole `role`."""
        binding = {
            "metadata": {"name": user},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "User", "name": user}],
        }
        self.create(f"{_RBAC}/clusterrolebindings", binding)

    def patch(self, path: str, content: Mapping[str, Any]) -> None:
        """Merges `content` into the object at `path`."""
        self._request("PATCH", path, json.dumps(content), "application/merge-patch+json")

    def watch(self, path: str, *, timeout_s: float) -> Iterator[Mapping[str, Any]]:
        """The events of a collection until the server ends it. Raises OSError if nothing comes for `timeout_s`."""
        connection = http.client.HTTPSConnection(self._address, context=self._context, timeout=timeout_s)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            if response.status != http.client.OK:
                raise ApiError(response.status, f"watching {path}: {response.status} {response.read().decode()}")
            for line in response:
                yield json.loads(line)
        finally:
            connection.close()

    def _request(self, method: str, path: str, body: str | None = None, kind: str = "") -> bytes:
        connection = http.client.HTTPSConnection(self._address, context=self._context, timeout=_TIMEOUT_S)
        try:
            connection.request(method, path, body, {"Content-Type": kind} if kind else {})
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        if response.status >= http.client.BAD_REQUEST:
            raise ApiError(response.status, f"{method} {path}: {response.status} {content.decode(errors='replace')}")
        return content


def _decoded(text: str) -> bytes:
    return base64.b64decode(text)
