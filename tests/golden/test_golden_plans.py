"""The planner's worked stories as prose. `make golden` rewrites them; read the diff."""

from pathlib import Path

import pytest

from modelfleet.core.layout.choose import answer
from modelfleet.core.layout.prose import tell
from plan_stories import STORIES

HERE = Path(__file__).parent / "plans"


@pytest.mark.parametrize("name", STORIES)
def test_story(name: str, request: pytest.FixtureRequest) -> None:
    story = STORIES[name]
    question = story()
    got = f"{(story.__doc__ or '').strip()}\n\n{tell(question, answer(question))}"
    path = HERE / f"{name}.txt"
    if request.config.getoption("--update-golden"):
        HERE.mkdir(exist_ok=True)
        path.write_text(got)
    assert path.read_text() == got, "run `make golden`, then read the diff"


def test_every_golden_file_has_a_case() -> None:
    assert {path.stem for path in HERE.glob("*.txt")} == set(STORIES)
