"""docs/metrics.md and the code name the same series."""

import re
from pathlib import Path

import modelfleet_worker

DOCS = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text()
CODE = "".join(path.read_text() for path in Path(str(modelfleet_worker.__file__)).parent.rglob("*.py"))
NO_METRICS = {"modelfleet_request", "modelfleet_turn", "modelfleet_worker"}
"""Names of context variables and of the package."""

IN_CODE = set(re.findall(r'"(modelfleet_[a-z_]+)"', CODE)) - NO_METRICS
WHOLE = set(re.findall(r"`(modelfleet_(?!worker\.)[a-z_]+?)(?:_total|_info)?[`{*]", DOCS))
ENDINGS = {ending.removesuffix("_total") for ending in re.findall(r"`…?(_[a-z_]+)", DOCS)}
"""In a row of several, what follows the first."""


def test_every_series_is_documented() -> None:
    missing = {name for name in IN_CODE - WHOLE if not name.endswith(tuple(ENDINGS))}
    assert not missing


def test_no_series_is_documented_that_there_is_not() -> None:
    told = {name for name in WHOLE if not name.endswith("_")}
    assert told - IN_CODE == {"modelfleet_worker"}, "its info alone has the package's name"
