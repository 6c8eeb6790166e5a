"""Options of the whole suite."""

import pytest

pytest_plugins = ["cluster_fixtures"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files instead of comparing them")
    parser.addoption("--thorough", action="store_true", help="every kill and every fault instead of a seeded sample")


@pytest.fixture(scope="session")
def thorough(request: pytest.FixtureRequest) -> bool:
    """Whether this run takes every case where a normal one takes a sample."""
    return bool(request.config.getoption("--thorough"))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "thorough: takes minutes; runs only with --thorough, as the e2e targets give it")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--thorough"):
        return
    left_out = [item for item in items if item.get_closest_marker("thorough")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]
