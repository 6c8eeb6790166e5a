"""Options of the whole suite, and what is refused on an existing cluster."""

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler.loadscope import LoadScopeScheduling

pytest_plugins = ["cluster_fixtures"]

_MACHINE = re.compile(r"tests/(apiserver|e2e|engine|gitops|local|prometheus|report|fuzz/test_odd_clusters)\b")
"""The tests that start clusters, engines and browsers."""

# An example that takes longer says something of the machine's other work, not of ours.
settings.register_profile("modelfleet", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("modelfleet")


def pytest_addoption(parser: pytest.Parser) -> None:
    add = parser.addoption
    add("--update-golden", action="store_true", help="write the golden files instead of comparing them")
    add("--thorough", action="store_true", help="every kill and every fault instead of a seeded sample")
    add("--kubeconfig", type=Path, help="run tests/e2e on this existing cluster, and leave it as it was")
    add("--operator-image", default="", help="with --kubeconfig: an image that its nodes can pull")
    add("--worker-image", default="", help="the same, of the worker")
    add("--images-loaded", action="store_true", help="with --kubeconfig: its nodes hold this checkout's images already")
    add("--gitops-minutes", type=float, default=10.0, help="with -m gitops: how long to scale and to look for drift")


@pytest.fixture(scope="session")
def thorough(request: pytest.FixtureRequest) -> bool:
    """Whether this run takes every case where a normal one takes a sample."""
    return bool(request.config.getoption("--thorough"))


class _OneMachine(LoadScopeScheduling):
    """For pytest-xdist: what starts clusters one after the other in one process, and beside it file by file all else.

    A scheduler and no `xdist_group`: with pytest 9.2, 3.8.0 forgets the groups (pytest-xdist#1386).
    """

    def _split_scope(self, nodeid: str) -> str:
        return "machine" if _MACHINE.match(nodeid) else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> _OneMachine:
    return _OneMachine(config, log)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "thorough: takes minutes; runs only with --thorough, as the e2e targets give it")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--thorough"):
        left_out = [item for item in items if item.get_closest_marker("thorough")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]
    if config.getoption("--kubeconfig") is None:
        return
    for item in items:
        marker = item.get_closest_marker("own_cluster")
        if marker is not None:
            item.add_marker(pytest.mark.skip(reason=f"refused on an existing cluster: it {marker.args[0]}"))
