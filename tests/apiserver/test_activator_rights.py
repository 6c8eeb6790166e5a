"""An activator under its account, with the chart's roles and policies, on a real API server: what it does works, uses
every right that it has, and goes no further than its own fields."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from fleet import Fleet
from rights import granted, used, wait_holds

from activator_process import Client, clients, running_activator, until
from modelfleet.api import names
from modelfleet.controller import credentials
from modelfleet.controller.cluster import KubernetesCluster, Written
from modelfleet.controller.resources import SLICES
from modelfleet_local import Cluster
from modelfleet_local import fleet as installing
from worker_process import free_port

POD = "activator-a"
POD_IP = "192.0.2.1"  # an EndpointSlice takes no loopback address
FIELDS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy")
STATUS = {"apiVersion": names.API_VERSION, "kind": names.DEPLOYMENT_KIND}


@dataclass
class Account:
    """The activators' account, as a pod of theirs has it."""

    fleet: Fleet
    name: str
    manifests: tuple[dict[str, Any], ...]
    kubeconfig: Path

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        """What kubectl says under this account, also where it is refused."""
        cluster = self.fleet.cluster
        where = (f"--kubeconfig={self.kubeconfig}", f"--namespace={self.fleet.namespace}")
        done = cluster.kubectl(*where, *args, stdin=stdin)
        return done.stdout + done.stderr

    def apply_status(
        self, status: dict[str, Any], manager: str = "modelfleet-activator-x", *, dry_run: str = "none"
    ) -> str:
        manifest = {**STATUS, "metadata": {"name": "chat", "namespace": self.fleet.namespace}, "status": status}
        how = ("--server-side", "--subresource=status", f"--field-manager={manager}", "--force-conflicts")
        return self.kubectl("apply", *how, f"--dry-run={dry_run}", "--filename=-", stdin=json.dumps(manifest))

    async def is_kept_from(self, slice_name: str) -> bool:
        """Asked by a patch that changes nothing; an API server goes by a policy only a moment after it is there."""
        return await self.patch_slice(slice_name, {"endpoints": []}) != ""

    async def patch_slice(self, name: str, patch: dict[str, Any]) -> str:
        """Without a look at it before, as kubectl would want."""
        async with KubernetesCluster(await credentials.load(str(self.kubeconfig))) as cluster:
            done = await cluster.merge(SLICES, name, self.fleet.namespace, patch)
        return "" if isinstance(done, Written) else done.message


@pytest.fixture
def account(api_server: Cluster, fleet: Fleet, tmp_path: Path) -> Iterator[Account]:
    release = fleet.namespace
    images = [f"--set={part}.image=registry.example/{part}:1" for part in ("operator", "worker")]
    settings = [*images, "--set=activator.enabled=true", "--set=activator.callerTokenSecretName=own"]
    where = (f"--namespace={release}", "--kube-version=1.34.0")
    rendered = installing.helm(api_server, "template", release, str(installing.CHART), *where, *settings)
    name = f"{release}-modelfleet-activator"
    manifests = tuple(
        item
        for item in yaml.safe_load_all(rendered)
        if item and item["kind"].startswith(FIELDS) and item["metadata"]["name"].startswith(name)
    )
    installing.apply(api_server, *manifests)
    wait_holds(api_server.api, f"{release}:{name}", granted(manifests, name))
    pod = {"metadata": {"name": POD}, "spec": {"serviceAccountName": name, "containers": [{"name": "a", "image": "a"}]}}
    fleet.api.create(fleet.path("pods"), pod)
    bound = ("--bound-object-kind=Pod", f"--bound-object-name={POD}")
    config = yaml.safe_load(api_server.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": fleet.kubectl("create", "token", name, *bound).strip()}
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config))
    yield Account(fleet, name, manifests, path)
    for item in manifests:
        if not item["kind"].startswith("ServiceAccount"):
            api_server.kubectl("delete", item["kind"], item["metadata"]["name"], "--wait=false")


@pytest.fixture
def model(fleet: Fleet) -> int:
    """A ModelDeployment at zero whose slice waits for activators, and another slice; the activators' port."""
    port = free_port()
    fleet.apply(fleet.deployment("chat"))
    told = {
        "observedGeneration": 1,
        "toZero": {"state": "AtZero", "since": "2026-01-01T00:00:00Z", "activatorPort": port},
        "demand": [{"activator": "activator-b", "waiting": 4, "at": "2026-01-01T00:00:00Z"}],
    }
    fleet.kubectl(
        "patch", "mdep", "chat", "--subresource=status", "--type=merge", f"--patch={json.dumps({'status': told})}"
    )
    for name, manager in (
        (names.activator_slice("chat"), names.ACTIVATOR),
        ("other", "endpointslice-controller.k8s.io"),
    ):
        labels = {
            names.DEPLOYMENT_LABEL: "chat",
            names.SERVICE_NAME_LABEL: "chat",
            names.SLICE_MANAGER_LABEL: manager,
        }
        made = {"metadata": {"name": name, "labels": labels}, "addressType": "IPv4", "endpoints": []}
        fleet.api.create(fleet.path("endpointslices"), {**made, "ports": [{"name": "http", "port": port}]})
    return port


def demand(fleet: Fleet) -> dict[str, int]:
    stored = fleet.get(names.DEPLOYMENT_PLURAL, "chat") or {}
    return {each["activator"]: each["waiting"] for each in stored["status"].get("demand", [])}


def endpoints(fleet: Fleet) -> list[str]:
    stored = fleet.get("endpointslices", names.activator_slice("chat")) or {}
    return [address for each in stored.get("endpoints") or [] for address in each["addresses"]]


async def test_an_activator_may_do_all_that_it_does_and_does_all_that_it_may(account: Account, model: int) -> None:
    fleet = account.fleet
    async with running_activator(account.kubeconfig, pod=POD, pod_ip=POD_IP) as activator, clients() as session:
        await until(lambda: endpoints(fleet) == [POD_IP])
        asking = Client(session, model, "chat").complete()
        held = asyncio.create_task(asking)
        await until(lambda: demand(fleet) == {"activator-b": 4, POD: 1})
        held.cancel()
        await until(lambda: demand(fleet) == {"activator-b": 4})
        activator.terminate()
        assert await activator.exit_code() == 0
    assert endpoints(fleet) == []
    uses = used(fleet.cluster.audit_log, f"system:serviceaccount:{fleet.namespace}:{account.name}")
    assert [str(right) for right in sorted(uses.denied)] == []
    grants = granted(account.manifests, account.name)
    assert grants
    assert [str(grant) for grant in sorted(grants) if not any(grant.covers(use) for use in uses.rights)] == []


async def test_an_activator_writes_its_own_fields_and_nothing_else(account: Account, model: int) -> None:
    own = {"activator": POD, "waiting": 1, "at": "2026-01-01T00:00:00Z"}
    other = {"activator": "activator-c", "waiting": 1, "at": "2026-01-01T00:00:00Z"}
    ours, slice_of_kubernetes = names.activator_slice("chat"), "other"
    endpoint = [{"addresses": [POD_IP]}]

    more, refusal = {"demand": [own], "replicas": 7}, "an activator writes nothing of a status but status.demand"
    await until(lambda: refusal in account.apply_status(more, dry_run="server"))
    await until(lambda: account.is_kept_from(slice_of_kubernetes))
    assert "serverside-applied" in account.apply_status({"demand": [own]})
    assert refusal in account.apply_status(more)
    assert "an activator writes no entry of status.demand but its own" in account.apply_status({"demand": [other]})
    assert "an activator writes no entry of status.demand but its own" in account.apply_status(
        {"demand": [own, {**own, "activator": "activator-b"}]}
    )
    assert await account.patch_slice(ours, {"endpoints": endpoint}) == ""
    refused = await account.patch_slice(slice_of_kubernetes, {"endpoints": endpoint})
    assert "no EndpointSlice but those of models that may be at zero" in refused
    for change in (
        {"ports": [{"name": "http", "port": 1}]},
        {"metadata": {"labels": {names.SERVICE_NAME_LABEL: "victim"}}},
        {"metadata": {"annotations": {"a": "b"}}},
    ):
        refused = await account.patch_slice(ours, change)
        assert "an activator writes nothing of an EndpointSlice but its endpoints" in refused
    assert demand(account.fleet) == {"activator-b": 4, POD: 1}
