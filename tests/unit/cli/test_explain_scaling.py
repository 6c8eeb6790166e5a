"""What `modelfleet explain` says of the number of replicas, and that a saved ledger gives the same answers again."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli_tables import Captured
from modelfleet.cli.explain import lines
from modelfleet.cli.explain_scaling import exported
from modelfleet.cli.main import main
from scaling_worlds import Sampled, sampled


@pytest.fixture(scope="module")
def burst() -> Sampled:
    """A fleet in a burst that maxReplicas clips."""
    fleet = sampled(maxReplicas=3)
    fleet.run(120, 1.0)
    return fleet.run(700, fleet.knee_rps * 4)


def _state(fleet: Sampled) -> dict[str, Any]:
    return next(dict(item) for key, item in fleet.fleet.objects.items() if key[1].endswith("-state"))


@pytest.mark.parametrize(
    "words",
    [
        pytest.param("maxReplicas allows 3", id="the bound that won"),
        pytest.param("requests a second by the plan", id="what one replica can do"),
        pytest.param("learned from", id="the correction and what is behind it"),
        pytest.param("99% of the requests", id="the promise"),
        pytest.param("the median of", id="the cold start"),
        pytest.param("bounds       minReplicas 1, maxReplicas 3; maxReplicas won", id="the bounds"),
        pytest.param("Not more: maxReplicas allows 3", id="why there are not more"),
        pytest.param("One less: a load to be expected below", id="what would give one back"),
        pytest.param("decided again every 5 s", id="when it looks again"),
        pytest.param("→ 3 ", id="the last changes"),
    ],
)
def test_the_number_is_explained_by(words: str, burst: Sampled) -> None:
    told = "\n".join(lines(burst.fleet.deployment, _state(burst)))

    assert words in " ".join(told.split()) or words in told


def test_a_saved_ledger_gives_the_same_answers_again(burst: Sampled, tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "ledger.json"
    path.write_text(exported(_state(burst), "chat"))

    status = main(["explain", "--replay", str(path)])

    out = capsys.readouterr().out
    assert status == 0
    assert "another" not in out
    assert len(out.splitlines()) > 20


def test_an_edited_input_shows_as_another_answer(burst: Sampled, tmp_path: Path, capsys: Captured) -> None:
    ledger = json.loads(exported(_state(burst), "chat"))
    for each in ledger["shared"]:
        if "highs" in each:
            each["highs"] = [{"name": "maxReplicas", "replicas": 2}]
    path = tmp_path / "ledger.json"
    path.write_text(json.dumps(ledger))

    assert main(["explain", "--replay", str(path)]) == 1
    assert "another" in capsys.readouterr().out


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"version": 1, "base": 3}', '{"version": 1, "rows": [{}]}'])
def test_what_is_no_ledger_gets_one_sentence(content: str, tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "ledger.json"
    path.write_text(content)

    assert main(["explain", "--replay", str(path)]) in (0, 2)
    err = capsys.readouterr().err
    assert len(err.splitlines()) <= 1
    assert "Traceback" not in err


def test_without_decisions_there_is_no_section() -> None:
    fleet = sampled(mode="Manual")

    assert "What would change the number" not in "\n".join(lines(fleet.fleet.deployment, {}))
