"""The operator as a process."""

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from modelfleet_local.waiting import wait_until

IMAGE = "registry.example.com/modelfleet-worker:test"
WAIT_S = 60.0
_CHART = Path(__file__).parents[1] / "golden" / "chart" / "default.yaml"


def chart_rules() -> list[dict[str, Any]]:
    """All that the chart lets the operator do: its ClusterRole's rules and those for its Lease."""
    roles = {item["metadata"]["name"]: item for item in yaml.safe_load_all(_CHART.read_text()) if "rules" in item}
    return [rule for name in ("modelfleet", "modelfleet-leader-election") for rule in roles[name]["rules"]]


@dataclass
class Operator:
    """`modelfleet-operator` as a process of its own; its log is JSON lines in `log`.

    It leads without a Lease unless `arguments` say otherwise: one that was killed would hold it for a while.
    """

    kubeconfig: Path
    log: Path
    arguments: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    port: int = 0

    def start(self, *, wait: bool = True) -> None:
        """Starts it; with `wait`, until it is ready."""
        argv = [sys.executable, "-m", "modelfleet.controller.main", f"--kubeconfig={self.kubeconfig}"]
        argv += [f"--worker-image={IMAGE}", "--metrics-host=127.0.0.1", "--metrics-port=0", "--propagation-seconds=1"]
        argv += ["--leader-elect=false"]
        self.port = 0
        started_at = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([*argv, *self.arguments], stderr=log, stdout=log, cwd="/")
        if wait:
            self.wait_ready(started_at)

    def wait_ready(self, log_from: int = 0) -> None:
        """Until it is ready; one that does not become so is killed."""
        try:
            wait_until("a ready operator", lambda: self._ready(log_from), timeout_s=WAIT_S, check=self._check)
        except BaseException:
            self.kill()
            raise

    def kill(self) -> None:
        """SIGKILL, as a crash."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(WAIT_S)

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(WAIT_S)

    def wait(self) -> int:
        """Until it ends by itself; the exit status."""
        assert self.process is not None
        return self.process.wait(WAIT_S)

    def lines(self) -> list[dict[str, Any]]:
        """What it logged. A line that is not JSON fails the test: something printed a traceback or worse."""
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def get(self, path: str) -> tuple[int, str]:
        """A request to its port."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metric(self, name: str) -> float:
        """The sum of a metric's series."""
        rows = [row.rsplit(" ", 1) for row in self.get("/metrics")[1].splitlines() if not row.startswith("#")]
        return sum(float(value) for series, value in rows if series.split("{")[0] == f"modelfleet_operator_{name}")

    def runs_after(self, runs: float) -> float:
        """Waits until more reconciles than `runs` have ended; how many by then."""
        wait_until("a reconcile", lambda: self.metric("reconcile_seconds_count") > runs, timeout_s=WAIT_S)
        return self.metric("reconcile_seconds_count")

    def finds_port(self, log_from: int = 0) -> bool:
        """Whether its log tells by now where it serves metrics and probes."""
        for line in self.log.read_bytes()[log_from:].splitlines(keepends=True):
            if line.endswith(b"\n") and "port" in (read := json.loads(line)):
                self.port = read["port"]
        return self.port != 0

    def _ready(self, log_from: int) -> bool:
        return self.finds_port(log_from) and self.get("/readyz")[0] == 200

    def _check(self) -> None:
        assert self.process is not None
        assert self.process.poll() is None, f"the operator ended: {self.log.read_text()}"
