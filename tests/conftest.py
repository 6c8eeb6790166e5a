"""Options of the whole suite."""

import pytest

pytest_plugins = ["cluster_fixtures"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files instead of comparing them")
    parser.addoption(
        "--gitops-minutes", type=float, default=10.0, help="how long `-m gitops` scales and looks for drift"
    )
