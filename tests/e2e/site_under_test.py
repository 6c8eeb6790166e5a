"""A user's hands in one namespace of a cluster with modelfleet on it."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelfleet.api import names
from modelfleet_local import fleet
from modelfleet_local.target import Target
from modelfleet_local.waiting import wait_until

READY_S = 240.0  # one engine start on two busy cores takes up to 125 s

_SIGNAL = """
import contextlib, os, pathlib
for folder in pathlib.Path("/proc").glob("[0-9]*"):
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        if "{of}" in (folder / "cmdline").read_text() and int(folder.name) != os.getpid():
            os.kill(int(folder.name), {number:d})
            print(folder.name)
"""


@dataclass(frozen=True)
class Site:
    """A namespace on a cluster."""

    cluster: Target
    namespace: str

    def kubectl(self, *args: str, stdin: str | None = None) -> str:
        """kubectl in the namespace; it must succeed."""
        done = self.cluster.kubectl("-n", self.namespace, *args, stdin=stdin)
        assert done.returncode == 0, f"kubectl {' '.join(args)}: {done.stderr}{done.stdout}"
        return done.stdout

    def read(self, *args: str) -> dict[str, Any]:
        """What `kubectl get ... -o json` gives."""
        found: dict[str, Any] = json.loads(self.kubectl("get", *args, "-o", "json"))
        return found

    def apply(self, manifest: dict[str, Any]) -> None:
        """As a user applies, with kubectl's strict validation."""
        self.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))

    def deployment(self, name: str, **spec: Any) -> dict[str, Any]:
        """A ModelDeployment of the tiny model on the CPU; `spec` replaces whole fields."""
        lengths = {"inputTokens": {"p50": 64, "p95": 256}, "outputTokens": {"p50": 64, "p95": 512}}
        promise = {"ttft": "2s", "tpot": "200ms", "load": {"requestsPerSecond": 1}, "lengths": lengths}
        return {
            "apiVersion": names.API_VERSION,
            "kind": names.DEPLOYMENT_KIND,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "model": {"source": f"pvc://{fleet.MODEL_CLAIM}", "maxContextTokens": 4096},
                "objectives": [{"name": "interactive", **promise}],
                "accelerators": {"classes": ["cpu"]},
                "scaling": {"minReplicas": 1, "maxReplicas": 2},
                "engine": {
                    "installationClaimName": fleet.ENGINE_CLAIM,
                    "args": {"enforce-eager": "true", "kv-cache-memory-bytes": "64M", "max-num-seqs": 8},
                },
                **spec,
            },
        }

    def known_class(self) -> str:
        """A class of the same nodes as `cpu` that states its performance, so that the planner chooses; its name."""
        name = f"cpu-of-{self.namespace}"
        performance = {
            "memory": "2Gi",
            "memoryBandwidth": "20G",
            "compute": {"bf16": "500G"},
            "supplies": [{"name": "this-machine", "pricePerAcceleratorHour": "0.05"}],
        }
        stored: dict[str, Any] = self.read("accel", "cpu")["spec"]
        metadata = {"name": name}
        spec = {**stored, **performance}
        self.apply({"apiVersion": names.API_VERSION, "kind": names.CLASS_KIND, "metadata": metadata, "spec": spec})
        return name

    def condition(self, name: str, kind: str) -> dict[str, str]:
        """A condition of a ModelDeployment; an empty one before it is first written."""
        conditions = self.read("mdep", name).get("status", {}).get("conditions", [])
        return next((each for each in conditions if each["type"] == kind), {"status": "", "reason": "", "message": ""})

    def wait_for(self, name: str, kind: str, status: str, reason: str = "", timeout_s: float = READY_S) -> str:
        """Waits until the condition has this status (and reason) and gives the message that it had then."""
        message = ""

        def there() -> bool:
            nonlocal message
            found = self.condition(name, kind)
            message = found["message"]
            return found["status"] == status and found["reason"] == (reason or found["reason"])

        self.wait(f"{kind}={status} {reason} of {name}", there, timeout_s)
        return message

    def wait(self, what: str, done: Callable[[], bool], timeout_s: float = READY_S) -> None:
        """Waits, or fails with everything that a person would look at."""
        try:
            wait_until(what, done, timeout_s=timeout_s)
        except Exception as error:
            raise AssertionError(f"{error}\n{self.kubectl('describe', 'mdep,pods')}") from error

    def pods(self, name: str) -> list[dict[str, Any]]:
        """The worker pods of a ModelDeployment."""
        items: list[dict[str, Any]] = self.read("pods", "-l", f"{names.DEPLOYMENT_LABEL}={name}")["items"]
        return items

    def address(self, name: str) -> str:
        """`IP:PORT` of the Service."""
        return fleet.service_address(self.cluster, self.namespace, name)

    def ask(self, name: str, **request: Any) -> str:
        """One answer of the model through its Service."""
        return fleet.ask(self.cluster, self.address(name), name, **request)

    def stream(self, name: str, tokens: int) -> "subprocess.Popen[str]":
        """A streamed answer that is under way: its first piece has come."""
        argv = fleet.ask_argv(
            self.cluster, self.address(name), name, stream=True, max_tokens=tokens, min_tokens=tokens, ignore_eos=True
        )
        running = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert running.stdout is not None
        first = running.stdout.read(1)
        assert first, running.communicate()
        return running

    def load_argv(self, name: str, seconds: float) -> list[str]:
        """The command line of tests/e2e/load.py on the Service."""
        script = Path(__file__).with_name("load.py")
        url = f"http://{self.address(name)}/v1/chat/completions"
        return self.cluster.client_argv(script, url, name, str(seconds))

    def run_in_pod(self, pod: str, script: str) -> str:
        """The output of a Python script inside the worker container."""
        return self.kubectl("exec", pod, "-c", names.WORKER_CONTAINER, "--", "/usr/bin/python3", "-c", script)

    def signal(self, pod: str, of: str, number: int) -> None:
        """Sends a signal to the processes of a pod whose command line has `of`; there must be one."""
        assert self.run_in_pod(pod, _SIGNAL.format(of=of, number=number)), f"no process of {pod} has {of}"

    def remove(self) -> None:
        """Deletes the namespace and its volumes, and waits."""
        self.cluster.kubectl("delete", "namespace", self.namespace, "--timeout=180s")
        self.cluster.kubectl("delete", "accel", f"cpu-of-{self.namespace}", "--ignore-not-found")
        for claim in (fleet.MODEL_CLAIM, fleet.ENGINE_CLAIM):
            self.cluster.kubectl("delete", "pv", f"{self.namespace}-{claim}", "--ignore-not-found")
