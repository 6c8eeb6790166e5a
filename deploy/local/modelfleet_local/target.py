"""What the demo and end-to-end tests need of a cluster, whether they started it or were given it."""

import subprocess
from pathlib import Path
from typing import Protocol


class Target(Protocol):
    """A cluster that is up."""

    def require_up(self) -> Path:
        """The administrator's kubeconfig. Raises LocalClusterError if the cluster is not up."""

    def binary(self, name: str) -> Path:
        """One of our programs (kubectl, helm), built if it is missing."""

    def kubectl(self, *args: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Runs kubectl as administrator; the caller looks at the exit status."""

    def client_argv(self, script: Path, *args: str) -> list[str]:
        """The command line that runs a Python script of ours where Services have addresses; input and output pass."""
