"""A thousand ModelDeployments with ten replicas each on 1,250 fake nodes of eight accelerators.

Every pod waits behind the operator's gate until it is placed. Beside it, in the same run and with the same client rate
limit for everybody, plain Deployments with 1,000 pods. Prints what it measured, and writes it as JSON:
`large.py [OUTPUT] [--deployments N] [--replicas N] [--nodes N] [--plain N]`.
"""

import argparse
import asyncio
import re
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from math import ceil, inf
from pathlib import Path
from typing import Any

from client import Client, Seen
from fleet import GROUP, Fleet
from operator_process import Operator
from scale import (
    BURST,
    OURS,
    PLAIN,
    QPS,
    account,
    claim,
    on_a_cluster,
    plain_deployment,
    quantile,
    tell,
)

from modelfleet.api import names
from modelfleet_local import Cluster, Options, kwok

REST_S = 30.0
PATIENCE_S = 2400.0
RESYNC_S = 600.0  # in which each deployment is looked at once, by the operator's default
EDITS, EDITS_PER_S = 100, 5
_APPS = "/apis/apps/v1"
_RACK, _BLOCK = 8, 50
_LABELS = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
_SAMPLE = re.compile(r'([a-z]+)="([^"]*)"')


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much of everything. `plain` is the number of plain Deployments, of five pods each."""

    deployments: int
    replicas: int
    nodes: int
    plain: int

    @property
    def pods(self) -> int:
        """All replicas, of one pod each."""
        return self.deployments * self.replicas


def main() -> None:
    """Starts a cluster of its own, measures, takes it down."""
    reader = argparse.ArgumentParser()
    reader.add_argument("output", nargs="?", type=Path, default=Path("build/bench/scale-large.json"))
    for name, default in (("deployments", 1000), ("replicas", 10), ("nodes", 1250), ("plain", 200)):
        reader.add_argument(f"--{name}", type=int, default=default)
    given = vars(reader.parse_args())
    output = given.pop("output")
    size = Size(**given)
    results = on_a_cluster("bench-large", Options(owned=True), lambda cluster, say: measure(cluster, size, say))
    tell(results, table(results), output)


async def measure(cluster: Cluster, size: Size, say: Callable[[str], None]) -> dict[str, Any]:
    """Everything, in one run."""
    fleet = Fleet(cluster, OURS, "gpu")
    fleet.create_class(topologyKeys=["topology.example.com/rack", "topology.example.com/block"])
    claim(fleet)
    rate = (f"--api-qps={QPS}", f"--api-burst={BURST}")
    # Without a Lease: on a machine under a load of 70 it was lost, and nobody here starts the process again.
    operator = Operator(account(cluster), cluster.logs / "operator.log", rate)
    async with Client(cluster.kubeconfig) as client:
        say(f"{size.nodes} nodes")
        await _nodes(client, size.nodes)
        operator.start()
        try:
            say(f"{size.plain} plain Deployments")
            plain = await _plain(client, size, operator)
            say(f"{size.deployments} ModelDeployments")
            ours = await _ours(client, fleet, size, operator)
            say("changes while everything stands")
            changes = await _changes(client, size, operator)
            say(f"at rest for {REST_S:.0f} s")
            rest = await _rest(operator, size)
            say("a restart")
            restart = await _restart(operator, size)
        finally:
            operator.stop()
    parts = {"plain": plain, "ours": ours, "changes": changes, "rest": rest, "restart": restart}
    return {"size": asdict(size), "pods": size.pods, **parts}


async def _plain(client: Client, size: Size, operator: Operator) -> dict[str, Any]:
    path, pods = f"{_APPS}/namespaces/{PLAIN}/deployments", size.plain * 5
    manifests = [plain_deployment(f"plain-{number:03}") for number in range(size.plain)]
    result = await _burst(client, PLAIN, path, manifests, pods, operator)
    await client.delete_all(path)
    await _until(lambda: _count(client, f"/api/v1/namespaces/{PLAIN}/pods", 0))
    return result


async def _ours(client: Client, fleet: Fleet, size: Size, operator: Operator) -> dict[str, Any]:
    path = f"{GROUP}/namespaces/{OURS}/{names.DEPLOYMENT_PLURAL}"
    scaling = {"mode": "Manual", "minReplicas": 1, "maxReplicas": size.replicas, "replicas": size.replicas}
    manifests = [fleet.deployment(f"model-{number:04}", scaling=scaling) for number in range(size.deployments)]
    before = metrics(operator)
    result = await _burst(client, OURS, path, manifests, size.pods, operator)
    after = metrics(operator)
    bodies = f"/api/v1/namespaces/{OURS}/pods"
    on = Counter(pod["spec"]["nodeName"] for pod in await client.items(bodies))
    assert max(on.values()) <= 8, "a node holds more than its accelerators"
    sums = {**reconciles(before, after), **used(before, after, operator), "requests": means(before, after)}
    return result | {"nodes_used": len(on), **sums}


async def _burst(
    client: Client, namespace: str, path: str, manifests: list[dict[str, Any]], pods: int, operator: Operator
) -> dict[str, Any]:
    """Creates everything at once; the spread of create → pod created, and when all pods run."""
    seen = Seen("app" if namespace == PLAIN else names.DEPLOYMENT_LABEL)
    watching = asyncio.create_task(client.watch_pods(namespace, seen))
    await asyncio.sleep(0.5)
    began_s = time.monotonic()
    sent_s = await client.create_all(path, manifests)
    await _until(lambda: _seen(seen, watching, pods, operator))
    watching.cancel()
    took = sorted(at_s - sent_s[owner] for owner, at_s in seen.at_s.values())
    created_s = max(at_s for _, at_s in seen.at_s.values()) - began_s
    await _until(lambda: _all_run(client, f"/api/v1/namespaces/{namespace}/pods", pods), every_s=2.0)
    return {
        "p50_s": round(quantile(took, 0.5), 2),
        "p99_s": round(quantile(took, 0.99), 2),
        "all_created_after_s": round(created_s, 1),
        "all_running_after_s": round(time.monotonic() - began_s, 1),
    }


async def _changes(client: Client, size: Size, operator: Operator) -> dict[str, Any]:
    """One replica fewer, deployment after deployment, while all others stand."""
    await _quiet(operator, size)
    before, fewer = metrics(operator), min(EDITS, size.deployments)
    for number in range(fewer):
        body = {"spec": {"scaling": {"replicas": size.replicas - 1}}}
        await client.patch(f"{GROUP}/namespaces/{OURS}/{names.DEPLOYMENT_PLURAL}/model-{number:04}", body)
        await asyncio.sleep(1 / EDITS_PER_S)
    await _until(lambda: _count(client, f"/api/v1/namespaces/{OURS}/pods", size.pods - fewer), every_s=1.0)
    await _quiet(operator, size)
    after = metrics(operator)
    return {"edits": fewer, **reconciles(before, after), **used(before, after, operator)}


async def _rest(operator: Operator, size: Size) -> dict[str, Any]:
    await _quiet(operator, size)
    before, began_s = metrics(operator), time.monotonic()
    await asyncio.sleep(REST_S)
    minutes, after = (time.monotonic() - began_s) / 60, metrics(operator)
    asked = difference(before, after, "api_request_seconds_count", "verb", "kind")
    return {
        "cpu_percent_of_a_core": round(100 * (cpu_s(after) - cpu_s(before)) / (minutes * 60), 2),
        "requests_per_minute": {what: round(count / minutes, 1) for what, count in asked.most_common() if count},
        "resident_mib": used(before, after, operator)["resident_mib"],
    }


async def _restart(operator: Operator, size: Size) -> dict[str, Any]:
    """From the start of a process until it has read the cluster and looked at every object once."""
    assert operator.stop() == 0
    began_s = time.monotonic()
    operator.start()
    ready_s = time.monotonic() - began_s
    whole_s = looked_s = None
    while True:
        now = metrics(operator)
        if whole_s is None and value(now, "inventory_whole"):
            whole_s = time.monotonic() - began_s
        looked = sum(count for name, labels, count in now if name == "reconcile_seconds_count")
        if looked_s is None and looked >= size.deployments:  # what is woken by samples comes behind
            looked_s = time.monotonic() - began_s
        if whole_s is not None and looked_s is not None and not value(now, "queue_depth"):
            break
        assert time.monotonic() - began_s < PATIENCE_S
        await asyncio.sleep(0.25)
    nothing_waits_s = time.monotonic() - began_s
    writes = sum(count for name, _, count in metrics(operator) if name == "writes_total")
    return {
        "ready_after_s": round(ready_s, 1),
        "inventory_whole_after_s": round(whole_s, 1),
        "all_looked_at_after_s": round(looked_s, 1),
        "nothing_waits_after_s": round(nothing_waits_s, 1),
        "writes": int(writes),
        **used(now, now, operator),
    }


Sample = tuple[str, Mapping[str, str], float]


def metrics(operator: Operator) -> list[Sample]:
    """What the operator tells: name without our prefix, labels, value."""
    with urllib.request.urlopen(f"http://127.0.0.1:{operator.port}/metrics", timeout=60) as answer:
        rows = [row for row in answer.read().decode().splitlines() if row and not row.startswith("#")]
    found = []
    for row in rows:
        what, _, figure = row.rpartition(" ")
        name, _, labels = what.partition("{")
        found.append((name.removeprefix("modelfleet_operator_"), dict(_SAMPLE.findall(labels)), float(figure)))
    return found


def value(samples: list[Sample], name: str) -> float:
    return next(figure for found, _, figure in samples if found == name)


def cpu_s(samples: list[Sample]) -> float:
    return value(samples, "process_cpu_seconds_total")


def difference(before: list[Sample], after: list[Sample], name: str, *labels: str) -> Counter[str]:
    """How much each series of a counter grew, summed by these labels."""
    grown: Counter[str] = Counter()
    for samples, sign in ((before, -1), (after, 1)):
        for found, marks, figure in samples:
            if found == name:
                grown[" ".join(marks[label] for label in labels)] += int(sign * figure)
    return grown


def reconciles(before: list[Sample], after: list[Sample]) -> dict[str, Any]:
    """How long reconciles took, of all results together: quantiles by the histogram, inside a bucket as Prometheus."""
    buckets = difference(before, after, "reconcile_seconds_bucket", "le")
    edges = sorted((float(edge.replace("+Inf", "inf")), count) for edge, count in buckets.items())
    return {
        "reconciles": edges[-1][1],
        "reconcile_p50_s": round(_bucket_quantile(edges, 0.5), 3),
        "reconcile_p99_s": round(_bucket_quantile(edges, 0.99), 3),
    }


def means(before: list[Sample], after: list[Sample]) -> dict[str, Any]:
    """How many requests of each kind the operator made, and how long they took on average."""
    counts = difference(before, after, "api_request_seconds_count", "verb", "kind")
    sums_ms = difference(_in_ms(before), _in_ms(after), "api_request_seconds_sum", "verb", "kind")
    return {what: {"count": count, "mean_ms": sums_ms[what] // count} for what, count in counts.most_common() if count}


def _in_ms(samples: list[Sample]) -> list[Sample]:
    return [(name, labels, 1000 * figure) for name, labels, figure in samples]


def _bucket_quantile(edges: list[tuple[float, int]], share: float) -> float:
    rank, below_s, below = share * edges[-1][1], 0.0, 0
    for edge_s, count in edges:
        if count >= rank:
            inside = (rank - below) / max(1, count - below)
            return below_s if edge_s == float("inf") else below_s + (edge_s - below_s) * inside
        below_s, below = edge_s, count
    return below_s


def used(before: list[Sample], after: list[Sample], operator: Operator) -> dict[str, Any]:
    """CPU between two readings; memory now and at its highest since the process began."""
    assert operator.process is not None
    status = Path(f"/proc/{operator.process.pid}/status").read_text()
    highest_kib = int(re.search(r"VmHWM:\s+(\d+)", status)[1])  # type: ignore[index]
    return {
        "cpu_s": round(cpu_s(after) - cpu_s(before), 1),
        "resident_mib": round(value(after, "process_resident_memory_bytes") / 2**20, 1),
        "highest_mib": round(highest_kib / 1024, 1),
    }


async def _nodes(client: Client, count: int) -> None:
    def node(number: int) -> dict[str, Any]:
        place = {
            "topology.example.com/rack": f"r{number // _RACK}",
            "topology.example.com/block": f"b{number // _BLOCK}",
        }
        return kwok.node(f"kwok-{number}", kwok.Shape(labels={**_LABELS, **place}))

    await client.create_all("/api/v1/nodes", map(node, range(count)))

    async def all_ready() -> bool:
        return all(_ready(item) for item in await client.items("/api/v1/nodes"))

    await _until(all_ready, every_s=2.0)


def _ready(node: Mapping[str, Any]) -> bool:
    conditions = {each["type"]: each["status"] for each in node.get("status", {}).get("conditions", ())}
    return conditions.get("Ready") == "True" and not node["spec"].get("taints")


async def _seen(seen: Seen, watching: "asyncio.Task[None]", pods: int, operator: Operator) -> bool:
    assert not watching.done(), watching.exception()
    assert operator.process is not None
    assert operator.process.poll() is None, f"the operator ended; see {operator.log}"
    return len(seen.at_s) >= pods


async def _all_run(client: Client, path: str, wanted: int) -> bool:
    return not await client.has(path, "status.phase!=Running") and await client.count(path) == wanted


async def _count(client: Client, path: str, wanted: int) -> bool:
    return await client.count(path) == wanted


async def _quiet(operator: Operator, size: Size) -> None:
    """Until for five seconds nothing was reconciled but what a resync looks at in that time, and twice as much."""
    resync = ceil(2 * 5 * size.deployments / RESYNC_S)
    deadline_s = time.monotonic() + PATIENCE_S
    counted = -inf
    while True:
        now = sum(count for name, _, count in metrics(operator) if name == "reconcile_seconds_count")
        if now - counted <= resync:
            return
        counted = now
        assert time.monotonic() < deadline_s, "the operator does not come to rest"
        await asyncio.sleep(5)


async def _until(done: Callable[[], Any], every_s: float = 0.25) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not await done():
        assert time.monotonic() < deadline_s, f"not done within {PATIENCE_S:.0f} s"
        await asyncio.sleep(every_s)


def table(results: Mapping[str, Any]) -> list[str]:
    """The results as a reader wants them."""
    ours, plain, rest, again = (results[part] for part in ("ours", "plain", "rest", "restart"))
    changes = results["changes"]
    return [
        f"{results['pods']} gated pods, client rate limit {QPS}/s (burst {BURST}) for each party",
        *(
            f"{name}: create to pod created p50 {part['p50_s']} s, p99 {part['p99_s']} s; all pods created after"
            f" {part['all_created_after_s']} s, running after {part['all_running_after_s']} s"
            for name, part in (("ModelDeployments", ours), ("plain Deployments", plain))
        ),
        f"in the burst: {_reconciles(ours)}; {ours['cpu_s']} s of CPU; memory {ours['resident_mib']} MiB,"
        f" at most {ours['highest_mib']} MiB; {ours['nodes_used']} nodes used",
        f"{changes['edits']} changes, {EDITS_PER_S} a second: {_reconciles(changes)}; {changes['cpu_s']} s of CPU",
        f"at rest: {rest['cpu_percent_of_a_core']} % of a core, {rest['resident_mib']} MiB, requests a minute:"
        f" {rest['requests_per_minute']}",
        f"a restart: inventory whole after {again['inventory_whole_after_s']} s, all objects looked at after"
        f" {again['all_looked_at_after_s']} s, {again['writes']} writes, memory at most {again['highest_mib']} MiB",
    ]


def _reconciles(part: Mapping[str, Any]) -> str:
    return f"{part['reconciles']} reconciles, p50 {part['reconcile_p50_s']} s, p99 {part['reconcile_p99_s']} s"


if __name__ == "__main__":
    main()
