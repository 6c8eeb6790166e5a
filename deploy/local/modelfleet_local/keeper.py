"""Keeps a node's extended resources advertised: `python -m modelfleet_local.keeper KUBECONFIG NODE NAME=COUNT...`.

A kubelet that restarts sets to zero what no device plugin brings (pkg/kubelet, reconcileExtendedResource: unless it
finds a plugin's checkpoint); this process sees that and mends it.
"""

import sys
import time
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any

from modelfleet_local.api import Api
from modelfleet_local.errors import LocalClusterError

_WATCH_S = 300
_RETRY_S = 1.0


def missing(node: Mapping[str, Any], wanted: Mapping[str, str]) -> bool:
    """Whether the node's status offers less or more than `wanted`."""
    status = node.get("status", {})
    return any(not wanted.items() <= status.get(part, {}).items() for part in ("capacity", "allocatable"))


def keep(api: Api, name: str, wanted: Mapping[str, str]) -> None:
    """Follows the node until the server ends the watch."""
    path = f"/api/v1/nodes?watch=true&fieldSelector=metadata.name%3D{name}&timeoutSeconds={_WATCH_S}"
    for event in api.watch(path, timeout_s=_WATCH_S + 30):
        if event["type"] in ("ADDED", "MODIFIED") and missing(event["object"], wanted):
            print(f"{name}: advertising {dict(wanted)}", flush=True)
            status = {"capacity": dict(wanted), "allocatable": dict(wanted)}
            api.patch(f"/api/v1/nodes/{name}/status", {"status": status})


def main() -> None:
    """Keeps until it is ended."""
    kubeconfig, name, *resources = sys.argv[1:]
    wanted = dict(resource.split("=", 1) for resource in resources)
    api = Api(Path(kubeconfig))
    while True:
        try:
            keep(api, name, wanted)
        except (OSError, HTTPException, LocalClusterError, ValueError) as error:
            print(f"{name}: {error}; watching again", flush=True)
            time.sleep(_RETRY_S)


if __name__ == "__main__":
    main()
