"""A real Kubernetes on one machine, for the demo and for tests: built from source, in its own network namespace."""

from modelfleet_local.cluster import Cluster, Options
from modelfleet_local.errors import LocalClusterError
from modelfleet_local.kwok import Shape

__all__ = ["Cluster", "LocalClusterError", "Options", "Shape"]
