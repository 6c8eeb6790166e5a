"""modelfleet installed by Helm on a cluster whose pods really run."""

from collections.abc import Iterator, Mapping

import pytest
from site_under_test import Site

from modelfleet_local import Cluster, engine, fleet
from modelfleet_local.existing import ExistingCluster
from modelfleet_local.images import Image
from modelfleet_local.paths import cache_dir
from modelfleet_local.target import Target


@pytest.fixture(scope="session")
def images(real_cluster: Cluster | ExistingCluster) -> Mapping[str, Image]:
    """The images of this checkout, loaded into the node; on an existing cluster those that the options name."""
    if isinstance(real_cluster, ExistingCluster):
        return real_cluster.images
    return fleet.load_images(real_cluster)


@pytest.fixture(scope="session")
def installed(real_cluster: Target, images: Mapping[str, Image]) -> Target:
    """The cluster with modelfleet in it; a drain may take as long as a slow machine needs for a long answer."""
    fleet.install_operator(real_cluster, images, {"worker.propagationSeconds": "2", "worker.drainSeconds": "240"})
    return real_cluster


@pytest.fixture(scope="module")
def site(installed: Target, request: pytest.FixtureRequest) -> Iterator[Site]:
    """A namespace for a module's tests with the tiny model and the real engine on claims, restricted pods only."""
    made = Site(installed, f"modelfleet-{request.module.__name__.replace('_', '-')}")
    if isinstance(installed, ExistingCluster):
        installed.check(made.namespace)
    fleet.apply(installed, fleet.model_namespace(made.namespace))
    for claim, folder in (
        (fleet.MODEL_CLAIM, engine.require_model(cache_dir())),
        (fleet.ENGINE_CLAIM, engine.require_engine(cache_dir())),
    ):
        fleet.apply(installed, fleet.claimed_folder(made.namespace, claim, folder))
    yield made
    made.remove()
