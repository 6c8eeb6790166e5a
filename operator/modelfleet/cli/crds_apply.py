"""`modelfleet crds apply`: brings the cluster's CRDs to this version. I/O.

Helm installs the chart's CRDs once and never touches them again; the chart's pre-upgrade hook runs this. It needs
get, patch and create on customresourcedefinitions with the two resourceNames, and nothing else: the create is a
server-side apply, which names its object, so that a rule with resourceNames covers it (run on 1.36.3).
"""

import asyncio
import sys

from modelfleet.api import crd
from modelfleet.controller import credentials
from modelfleet.controller.cluster import ApiError, KubernetesCluster, Written
from modelfleet.controller.resources import CRDS

ATTEMPTS = 5
POLL_S = 0.2


class CrdsError(Exception):
    """The CRDs could not be brought to this version; one sentence."""


def run(kubeconfig: str | None, context: str | None = None, timeout_s: float = 60.0) -> int:
    """Applies the CRDs and waits until they are served; 0, or 1 with one sentence on standard error."""
    try:
        for line in asyncio.run(_bounded(kubeconfig, context, timeout_s)):
            print(line)
    except (CrdsError, ApiError, credentials.CredentialsError) as error:
        print(f"modelfleet crds apply: {error}", file=sys.stderr)
        return 1
    return 0


async def _bounded(kubeconfig: str | None, context: str | None, timeout_s: float) -> list[str]:
    try:
        async with asyncio.timeout(timeout_s):
            return await _apply(kubeconfig, context)
    except TimeoutError as error:
        raise CrdsError(
            f"the CRDs were not served within {timeout_s:g} s; look at `kubectl get crd -o yaml`"
        ) from error


async def _apply(kubeconfig: str | None, context: str | None) -> list[str]:
    async with KubernetesCluster(await credentials.load(kubeconfig, context)) as cluster:
        names = []
        for kind in crd.KINDS:
            manifest = crd.crd(kind)
            await _install(cluster, manifest)
            names.append(manifest["metadata"]["name"])
        for name in names:
            await _established(cluster, name)
        return [f"{name} is served in this version" for name in names]


async def _install(cluster: KubernetesCluster, manifest: crd.Schema) -> None:
    said = ""
    for _ in range(ATTEMPTS):  # somebody may write between the read and the write
        result = await cluster.install(manifest)
        if isinstance(result, Written):
            return
        said = result.message
    raise CrdsError(f"the API server does not take {manifest['metadata']['name']}: {said}")


async def _established(cluster: KubernetesCluster, name: str) -> None:
    while True:
        stored = await cluster.get(CRDS, name) or {}
        told = (stored.get("status") or {}).get("conditions") or ()  # null on a CRD that was just made
        conditions = {condition["type"]: condition for condition in told}
        if conditions.get("Established", {}).get("status") == "True":
            return
        accepted = conditions.get("NamesAccepted", {})
        if accepted.get("status") == "False":
            raise CrdsError(f"the API server does not accept the names of {name}: {accepted.get('message')}")
        await asyncio.sleep(POLL_S)
