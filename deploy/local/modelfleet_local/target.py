"""What the demo and end-to-end tests need of a cluster, whether they started it or were given it."""

import subprocess
from abc import ABC, abstractmethod
from pathlib import Path

from modelfleet_local.binaries import Binaries
from modelfleet_local.paths import cache_dir
from modelfleet_local.progress import Say, silent


class Target(ABC):
    """A cluster, and our programs to work on it with."""

    def __init__(self, say: Say = silent) -> None:
        """`say` gets a line before each step that takes long."""
        self._say = say
        self._binaries = Binaries(cache_dir())

    @property
    @abstractmethod
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, for use in the host's network namespace."""

    @abstractmethod
    def require_up(self) -> Path:
        """The administrator's kubeconfig. Raises LocalClusterError if the cluster is not up."""

    @abstractmethod
    def client_argv(self, script: Path, *args: str) -> list[str]:
        """The command line that runs a Python script of ours where Services have addresses; input and output pass."""

    def binary(self, name: str) -> Path:
        """One of our programs (kubectl, helm and so on), built if it is missing."""
        self._binaries.ensure([name], self._say)
        return self._binaries.path(name)

    def kubectl(self, *args: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Runs kubectl as administrator; the caller looks at the exit status."""
        argv = [str(self.binary("kubectl")), f"--kubeconfig={self.kubeconfig}", *args]
        return subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
