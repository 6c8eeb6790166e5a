"""The cluster of the end-to-end tests: a control plane and one real node, with our CRDs."""

import os
from collections.abc import Iterator

import pytest

from cluster_fixtures import apply_crds
from modelfleet_local import Cluster, Options
from modelfleet_local.cluster import remove_orphans
from modelfleet_local.progress import Clocked


@pytest.fixture(scope="session")
def real_cluster() -> Iterator[Cluster]:
    """A cluster of this run's own on which pods really run; with an audit log."""
    say = Clocked()
    remove_orphans(say)
    cluster = Cluster(f"e2e-{os.getpid()}", Options(nodes=1, audit=True, owned=True), say=say)
    cluster.up()
    try:
        apply_crds(cluster)
        yield cluster
    finally:
        cluster.down()
