"""A user's hands on a model that goes to zero, and on what stands in front of it."""

import json
import re
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from site_under_test import Site

from modelfleet.api import names
from modelfleet_local.fleet import SYSTEM_NAMESPACE

ACTIVATORS = "app.kubernetes.io/name=modelfleet-activator"
OPERATORS = "app.kubernetes.io/name=modelfleet"
AFTER = "10s"


@dataclass
class Story:
    """One model. `settles_s`: how long it may take to come or to go."""

    site: Site
    name: str
    settles_s: float = 240.0

    @property
    def status(self) -> dict[str, Any]:
        """What the operator says of it."""
        found: dict[str, Any] = self.site.read("mdep", self.name).get("status", {})
        return found

    @property
    def state(self) -> str:
        """Serving, Leaving, AtZero or Waking."""
        return str(self.status.get("toZero", {}).get("state", ""))

    def at_zero(self) -> None:
        """Until nothing runs."""
        self.site.wait(
            f"{self.name} at zero",
            lambda: self.state == "AtZero" and not self.site.pods(self.name),
            self.settles_s,
        )

    def reaches(self, state: str) -> None:
        """Until it stands so."""
        self.site.wait(f"{self.name} is {state}", lambda: self.state == state, self.settles_s)

    def start(self, count: int, tokens: int = 4, *, stream: bool = False, patience_s: float = 300.0) -> "Asked":
        """Clients, all at once."""
        script, url = Path(__file__).with_name("zero_client.py"), f"http://{self.site.address(self.name)}"
        parts = (self.name, count, tokens, int(stream), patience_s)
        argv = self.site.cluster.client_argv(script, url, *map(str, parts))
        return Asked(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True))

    def ask(
        self, count: int, tokens: int = 4, *, stream: bool = False, patience_s: float = 300.0
    ) -> list[dict[str, Any]]:
        """The same, to the end."""
        return self.start(count, tokens, stream=stream, patience_s=patience_s).results()

    def arrivals(self) -> tuple[int, int]:
        """What all workers counted: requests, and those of them that arrived at zero."""
        total, first = 0, 0
        for pod in self.site.pods(self.name):
            path = f"/api/v1/namespaces/{self.site.namespace}/pods/{pod['metadata']['name']}:8001/proxy/metrics"
            page = self.site.kubectl("get", "--raw", path)
            total += _sum(page, r"modelfleet_goodput_arrivals_total\{[^}]*\}")
            first += _sum(page, r'modelfleet_goodput_apart_total\{[^}]*apart="first_caller"[^}]*outcome="all"[^}]*\}')
        return total, first

    def kill(self, label: str, *, all_of_them: bool = False) -> None:
        """SIGKILL, without a word."""
        found = self.site.cluster.kubectl("-n", SYSTEM_NAMESPACE, "get", "pods", "-l", label, "-o", "name")
        pods = found.stdout.split()
        assert pods, f"no pod has the label {label}"
        for pod in pods if all_of_them else pods[:1]:
            force = ("delete", pod, "--force", "--grace-period=0", "--wait=false")
            self.site.cluster.kubectl("-n", SYSTEM_NAMESPACE, *force)


@dataclass
class Asked:
    """Requests that are under way."""

    process: "subprocess.Popen[str]"

    def results(self) -> list[dict[str, Any]]:
        """What became of each."""
        out, _ = self.process.communicate(timeout=900)
        found: list[dict[str, Any]] = json.loads(out)
        return found


def became(results: Iterable[dict[str, Any]]) -> dict[str, int]:
    """How many became what."""
    counts: dict[str, int] = {}
    for each in results:
        counts[each["became"]] = counts.get(each["became"], 0) + 1
    return counts


def to_zero(site: Site, name: str, claim: str, model: str, **engine: Any) -> dict[str, Any]:
    """A ModelDeployment that goes to zero after a few idle seconds; one replica carries twenty requests."""
    manifest = site.deployment(name)
    spec = manifest["spec"]
    spec["model"] = {"source": model, "maxContextTokens": 4096}
    spec["objectives"][0] |= {"firstCaller": "Excused"}
    spec["scaling"] = {"minReplicas": 0, "maxReplicas": 3, "toZero": {"after": AFTER, "firstCallerWaits": "240s"}}
    spec["engine"] = {"installationClaimName": claim, "args": {"max-num-seqs": 20}, **engine}
    return manifest


def told(story: Story, what: str, begun_s: float, results: list[dict[str, Any]]) -> None:
    """A line for whoever reads the run."""
    firsts = sorted(each["first_s"] for each in results if each["became"] == "answered" and "first_s" in each)
    slowest = f", first token after {firsts[0]:.1f} to {firsts[-1]:.1f} s" if firsts else ""
    print(f"\n{story.name}: {what}: {became(results)}{slowest}, {time.monotonic() - begun_s:.0f} s in all")


def _sum(page: str, series: str) -> int:
    return round(sum(float(value) for value in re.findall(rf"^{series} ([0-9.e+]+)$", page, re.MULTILINE)))


WORKER = names.WORKER_CONTAINER
