"""Two hundred ModelDeployments with five replicas each beside as many plain Deployments: `scale.py [OUTPUT]`.

On kwok nodes, with one client rate limit for everybody: the operator, the controller manager, the scheduler. Prints
what it measured, and writes it as JSON.
"""

import asyncio
import json
import math
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from client import Client, Seen
from fleet import GROUP, Fleet
from operator_process import Operator, chart_rules

from cluster_fixtures import apply_crds
from modelfleet.api import names
from modelfleet_local import Cluster, Options, kwok
from modelfleet_local.progress import Clocked

DEPLOYMENTS, REPLICAS = 200, 5
QPS, BURST = 200, 400  # as deploy/local starts the controller manager and the scheduler
REST_S = 120.0
PATIENCE_S = 300.0
OURS, PLAIN = "ours", "plain"
ACCOUNT = "operator"
_SHAPE = kwok.Shape(allocatable={"cpu": "1000", "memory": "8Ti", "pods": "400", "nvidia.com/gpu": "400"})
_APPS = "/apis/apps/v1"

Measuring = Callable[[Cluster, Callable[[str], None]], Coroutine[Any, Any, dict[str, Any]]]


def main(output: Path) -> None:
    """Starts a cluster of its own, measures, takes it down."""
    options = Options(kwok_nodes=6, kwok_shape=_SHAPE, audit=True, owned=True)
    results = on_a_cluster("bench-scale", options, measure)
    tell(results, table(results), output)


def on_a_cluster(name: str, options: Options, measuring: Measuring) -> dict[str, Any]:
    """What `measuring` finds on a cluster with our CRDs and both namespaces, which is taken down after it."""
    say = Clocked()
    cluster = Cluster(name, options, say=say)
    cluster.up()
    try:
        apply_crds(cluster)
        for namespace in (OURS, PLAIN):
            kubectl(cluster, "create", "namespace", namespace)
        return asyncio.run(measuring(cluster, say))
    finally:
        cluster.down()


def tell(results: Mapping[str, Any], lines: Iterable[str], output: Path) -> None:
    """Writes the figures and prints the lines."""
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(results, indent=1) + "\n")
    for line in lines:
        print(line)


async def measure(cluster: Cluster, say: Callable[[str], None]) -> dict[str, Any]:
    """Everything, in one run."""
    fleet = Fleet(cluster, OURS, "gpu")
    fleet.create_class()
    claim(fleet)
    log = cluster.logs / "operator.log"
    lease = ("--leader-elect=true", f"--lease-namespace={OURS}", "--lease-name=modelfleet")
    rate = (f"--api-qps={QPS}", f"--api-burst={BURST}")
    operator = Operator(account(cluster), log, (*lease, *rate))
    operator.start()
    try:
        async with Client(cluster.kubeconfig) as client:
            say("plain Deployments")
            plain = await burst(client, PLAIN, f"{_APPS}/namespaces/{PLAIN}/deployments", _plain_deployments(), "app")
            await client.delete_all(f"{_APPS}/namespaces/{PLAIN}/deployments")
            await _until(lambda: _no_pods(client, PLAIN))
            say("ModelDeployments")
            before = process(operator)
            audit_from = cluster.audit_log.stat().st_size
            path = f"{GROUP}/namespaces/{OURS}/{names.DEPLOYMENT_PLURAL}"
            ours = await burst(client, OURS, path, _model_deployments(fleet), names.DEPLOYMENT_LABEL)
            await _until(lambda: _settled(client, path))
            after = process(operator)
            ours["operator"] = difference(before, after)
            ours["requests"] = requests(cluster, audit_from)
            say(f"at rest for {REST_S:.0f} s")
            await asyncio.sleep(15)
            rest = await at_rest(cluster, operator)
            say("a restart: everything is listed and looked at once")
            relist = await restart(cluster, operator)
    finally:
        operator.stop()
    ratio = {key: round(ours[key] / plain[key], 2) for key in ("p50_s", "p99_s")}
    return {"size": _size(), "ours": ours, "plain": plain, "ratio": ratio, "at_rest": rest, "relist": relist}


async def burst(
    client: Client, namespace: str, path: str, manifests: list[dict[str, Any]], label: str
) -> dict[str, Any]:
    """Creates everything at once; the spread of create → pod created."""
    seen = Seen(label)
    watching = asyncio.create_task(client.watch_pods(namespace, seen))
    await asyncio.sleep(0.5)
    began_s = time.monotonic()
    sent_s = await client.create_all(path, manifests)
    created_s = time.monotonic() - began_s

    async def all_there() -> bool:
        assert not watching.done(), watching.exception()
        return len(seen.at_s) >= DEPLOYMENTS * REPLICAS

    await _until(all_there)
    watching.cancel()
    took = sorted(at_s - sent_s[owner] for owner, at_s in seen.at_s.values())
    return {
        "p50_s": round(quantile(took, 0.5), 2),
        "p99_s": round(quantile(took, 0.99), 2),
        "all_pods_after_s": round(max(at_s for _, at_s in seen.at_s.values()) - began_s, 2),
        "objects_created_in_s": round(created_s, 2),
    }


async def at_rest(cluster: Cluster, operator: Operator) -> dict[str, Any]:
    """What the operator costs while nothing happens."""
    before, size = process(operator), cluster.audit_log.stat().st_size
    began_s = time.monotonic()
    await asyncio.sleep(REST_S)
    minutes = (time.monotonic() - began_s) / 60
    used = difference(before, process(operator))
    asked = requests(cluster, size)
    return {
        "cpu_percent_of_a_core": round(100 * used["cpu_s"] / (minutes * 60), 2),
        "resident_mib": used["resident_mib"],
        "requests_per_minute": round(asked.total() / minutes, 1),
        "requests": {what: round(count / minutes, 1) for what, count in asked.most_common()},
    }


async def restart(cluster: Cluster, operator: Operator) -> dict[str, Any]:
    """What it asks when it looks at everything once, as each resync does."""
    assert operator.stop() == 0
    size = cluster.audit_log.stat().st_size
    operator.start()
    asked, before = requests(cluster, size), -1
    while asked.total() - asked["patch leases"] != before:  # until it asks nothing any more
        before = asked.total() - asked["patch leases"]
        await asyncio.sleep(10)
        asked = requests(cluster, size)
    asked = Counter({what: count for what, count in asked.items() if not what.endswith("leases")})
    writes = {what: count for what, count in asked.items() if what.split()[0] not in ("get", "list", "watch")}
    return {"requests": asked, "writes": writes}


def process(operator: Operator) -> dict[str, float]:
    """CPU seconds and resident memory of the operator's process, as it tells them itself."""
    with urllib.request.urlopen(f"http://127.0.0.1:{operator.port}/metrics", timeout=30) as answer:
        rows = [row.rsplit(" ", 1) for row in answer.read().decode().splitlines() if not row.startswith("#")]
    found = {name: float(value) for name, value in rows if name.startswith("process_")}
    return {"cpu_s": found["process_cpu_seconds_total"], "resident_mib": found["process_resident_memory_bytes"] / 2**20}


def difference(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    return {"cpu_s": round(after["cpu_s"] - before["cpu_s"], 2), "resident_mib": round(after["resident_mib"], 1)}


def requests(cluster: Cluster, since: int) -> Counter[str]:
    """The operator's requests by verb and resource, from byte `since` of the audit log on."""
    found: Counter[str] = Counter()
    with cluster.audit_log.open("rb") as log:
        log.seek(since)
        for line in log:
            if not line.endswith(b"\n"):
                break
            event = json.loads(line)
            if event["user"].get("username", "").endswith(f":{ACCOUNT}") and event["stage"] == "ResponseComplete":
                found[f"{event['verb']} {event.get('objectRef', {}).get('resource', event['requestURI'])}"] += 1
    return found


def table(results: Mapping[str, Any]) -> list[str]:
    """The results as a reader wants them."""
    ours, plain, rest = results["ours"], results["plain"], results["at_rest"]
    return [
        f"{DEPLOYMENTS} objects with {REPLICAS} replicas, client rate limit {QPS}/s (burst {BURST}) for each party",
        *(
            f"{name}: create to pod created p50 {part['p50_s']} s, p99 {part['p99_s']} s; all pods after"
            f" {part['all_pods_after_s']} s"
            for name, part in (("ModelDeployments", ours), ("plain Deployments", plain))
        ),
        f"ratio: p50 {results['ratio']['p50_s']}, p99 {results['ratio']['p99_s']}",
        f"operator in the burst: {ours['operator']['cpu_s']} s of CPU, {ours['operator']['resident_mib']} MiB,"
        f" {sum(ours['requests'].values())} requests: {_most(ours['requests'])}",
        f"operator at rest: {rest['cpu_percent_of_a_core']} % of a core, {rest['resident_mib']} MiB,"
        f" {rest['requests_per_minute']} requests a minute: {rest['requests']}",
        f"a re-list of everything: {sum(results['relist']['requests'].values())} requests, writes of them:"
        f" {_most(results['relist']['writes']) or 'none'}",
    ]


def _most(asked: Mapping[str, int]) -> str:
    """The most frequent requests."""
    return ", ".join(f"{what} {count}" for what, count in Counter(asked).most_common(12))


def _size() -> dict[str, int]:
    return {"deployments": DEPLOYMENTS, "replicas": REPLICAS, "qps": QPS, "burst": BURST}


def _model_deployments(fleet: Fleet) -> list[dict[str, Any]]:
    scaling = {"mode": "Manual", "minReplicas": 1, "maxReplicas": REPLICAS, "replicas": REPLICAS}
    return [fleet.deployment(f"model-{number:03}", scaling=scaling) for number in range(DEPLOYMENTS)]


def _plain_deployments() -> list[dict[str, Any]]:
    return [plain_deployment(f"plain-{number:03}") for number in range(DEPLOYMENTS)]


def plain_deployment(name: str) -> dict[str, Any]:
    """A Deployment with REPLICAS pods of one accelerator."""
    labels = {"app": name}
    resources = {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "1", "memory": "4Gi"}}
    container = {"name": "worker", "image": "example.com/worker:1", "resources": resources}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": PLAIN},
        "spec": {
            "replicas": REPLICAS,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def claim(fleet: Fleet) -> None:
    """The claim that all ModelDeployments mount."""
    size = {"storage": "1Gi"}
    shared = {"accessModes": ["ReadOnlyMany"], "storageClassName": ""}
    reference = {"claimRef": {"namespace": fleet.namespace, "name": "models"}, "hostPath": {"path": "/dev/null"}}
    fleet.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "models"},
            "spec": {"capacity": size, **shared, **reference},
        }
    )
    fleet.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "models", "namespace": fleet.namespace},
            "spec": {**shared, "volumeName": "models", "resources": {"requests": size}},
        }
    )


def account(cluster: Cluster) -> Path:
    """A kubeconfig with the rights that the chart grants."""
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": ACCOUNT}}
    kubectl(cluster, "create", "serviceaccount", ACCOUNT, f"--namespace={OURS}")
    kubectl(cluster, "create", "-f-", stdin=json.dumps({**role, "rules": chart_rules()}))
    subject = f"--serviceaccount={OURS}:{ACCOUNT}"
    kubectl(cluster, "create", "clusterrolebinding", ACCOUNT, f"--clusterrole={ACCOUNT}", subject)
    token = kubectl(cluster, "create", "token", ACCOUNT, f"--namespace={OURS}").strip()
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token}
    path = cluster.paths.state / "operator.kubeconfig"
    path.write_text(json.dumps(config))
    return path


def kubectl(cluster: Cluster, *args: str, stdin: str | None = None) -> str:
    """kubectl as administrator; it must succeed."""
    done = cluster.kubectl(*args, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def _no_pods(client: Client, namespace: str) -> bool:
    return await client.count(f"/api/v1/namespaces/{namespace}/pods") == 0


async def _settled(client: Client, path: str) -> bool:
    said = [item.get("status", {}).get("conditions", ()) for item in await client.items(path)]
    reasons = [{each["type"]: each["reason"] for each in conditions} for conditions in said]
    return all((each.get("Ready"), each.get("Progressing")) == ("Serving", "Settled") for each in reasons)


async def _until(done: Callable[[], Awaitable[bool]]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not await done():
        assert time.monotonic() < deadline_s, f"not done within {PATIENCE_S:.0f} s"
        await asyncio.sleep(0.25)


def quantile(ordered: list[float], share: float) -> float:
    """The value below which this share of them lies."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/bench/scale.json"))
