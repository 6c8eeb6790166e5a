"""What `modelfleet explain` says of the number of replicas, and that a saved ledger gives the same answers again."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cli_tables import Captured
from modelfleet.cli.explain import lines
from modelfleet.cli.explain_scaling import exported, replayed, scaling_lines
from modelfleet.cli.main import main
from modelfleet.core.scaling.ledger import VERSION, Ledger, cut, dumped
from modelfleet.core.scaling.policy import Sample
from modelfleet.core.scaling.weighing import Inputs, Limit
from scaling_ticks import AT, TERMS, inputs
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


def _thresholds(low: int, high: int, load: int) -> tuple[int, str]:
    """The number under a steady load of so many requests a tick, and what is said to change it."""
    ledger, current = Ledger(), low
    for number in range(1000):  # longer than what was needed at the beginning is held for
        weighed, ledger = ledger.decide(inputs(number * 5.0, load, current, low, high), AT)
        current = weighed.replicas
    stored = {"ledger": dumped(ledger)}
    state = {"data": {"scaling.json": json.dumps(stored)}}
    return current, " ".join(" ".join(scaling_lines(state)).split())


@pytest.mark.parametrize("load", [22, 60, 133])
def test_the_loads_that_are_said_to_change_the_number_do(load: int) -> None:
    number, told = _thresholds(1, 50, load)
    above, below = (float(re.search(rf"{word} about ([0-9.]+)", told)[1]) for word in ("above", "below"))

    assert below * 0.95 < load / 5 <= above * 1.06  # about: the margin moves, and what was needed is held for a while
    assert _thresholds(1, 50, round(above * 1.25 * 5))[0] > number
    assert _thresholds(1, 50, round(below * 0.85 * 5))[0] < number


def test_the_upper_bound_is_named_where_it_is_the_lower_one_too() -> None:
    _, told = _thresholds(3, 3, 5)

    assert "Not more: maxReplicas allows 3" in told
    assert "Not less: 3 is the lower bound" in told


def test_a_ledger_of_another_version_is_said_to_be_one() -> None:
    stored = {"ledger": {"version": 0, "rows": [{"at": "2026-01-01T00:00:00Z"}]}}
    told = " ".join(" ".join(scaling_lines({"data": {"scaling.json": json.dumps(stored)}})).split())

    assert f"cannot be read: it is no ledger of version {VERSION}" in told


_COUNTS = st.integers(0, 3000)
_SAMPLES = st.tuples(
    _COUNTS, _COUNTS, st.floats(0, 1), _COUNTS, st.integers(0, 40), st.integers(0, 500), st.floats(4, 400)
)
_LIMITS = st.lists(
    st.builds(Limit, st.sampled_from(["minReplicas", "schedules[0]", "maxReplicas"]), st.integers(1, 30))
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    samples=st.lists(_SAMPLES, min_size=1, max_size=60),
    knee=st.floats(0.01, 500),
    share=st.floats(0.5, 0.9999),
    start_s=st.floats(5, 3600),
    lows=_LIMITS,
    highs=_LIMITS,
    keep=st.sampled_from(["", "replicas are starting or ending"]),
)
def test_whatever_was_decided_is_decided_again_from_the_saved_ledger(  # noqa: PLR0913
    samples, knee, share, start_s, lows, highs, keep, tmp_path: Path
) -> None:
    terms = replace(TERMS, knee_rps=knee, share=share, cold_start_s=start_s)
    ledger, current, now_s = Ledger(), 1, 0.0
    for arrivals, ended, good, finished, serving, waiting, passed_s in samples:
        sample = Sample(
            now_s=now_s,
            arrivals=arrivals,
            input_tokens=arrivals * 700,
            ended=ended,
            good=int(ended * good),
            finished=finished,
            output_tokens=finished * 150,
            serving=serving,
            pending_s=(start_s / 2,) * (serving % 3),
            waiting=waiting,
        )
        made = Inputs(sample=sample, terms=terms, current=current, lows=tuple(lows), highs=tuple(highs), keep=keep)
        weighed, ledger = ledger.decide(cut(made), AT)
        current, now_s = weighed.replicas, now_s + passed_s
    path = tmp_path / "ledger.json"
    path.write_text(exported({"data": {"scaling.json": json.dumps({"ledger": dumped(ledger)})}}, "chat"))

    told, same = replayed(str(path))

    assert same, "\n".join(told)
    assert len(told) > len(ledger.rows)


def test_a_ledger_that_is_nested_without_end_gets_one_sentence(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "ledger.json"
    path.write_text("[" * 100_000)

    assert main(["explain", "--replay", str(path)]) == 2
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert "cannot be read as JSON" in err


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", f'{{"version": {VERSION}, "base": 3}}', f'{{"version": {VERSION}, "rows": [{{}}]}}']
)
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
