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
