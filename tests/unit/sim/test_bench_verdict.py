"""What `make bench-autoscaler` concludes of a simulation, and what it says where it cannot run."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.autoscaler.__main__ import cases, lines, missed, verdict

ROOT = Path(__file__).parents[3]


def document(ours: float, peers: dict[str, float | None], oracle: float | None, share: float = 0.995) -> dict[str, Any]:
    def policy(name: str, hours: float | None, *, causal: bool = True) -> dict[str, Any]:
        return {
            "policy": name,
            "causal": causal,
            "acceleratorHoursAtOurShare": hours,
            "acceleratorHoursAtPromise": hours,
            "asShipped": {
                "share": share,
                "acceleratorHours": 9.0,
                "goodRequestsPerAcceleratorHour": 100.0,
                "worst5MinutesShare": 0.9,
                "scaleActions": 3.0,
            },
            "points": [{"parameter": "4", "share": 0.98}, {"parameter": "5", "share": 0.992}],
        }

    return {
        "world": {"share": 0.99},
        "policies": [
            policy("modelfleet", ours),
            *(policy(name, hours) for name, hours in peers.items()),
            policy("static", 1.0, causal=False),
            policy("oracle", oracle, causal=False),
        ],
    }


@pytest.mark.parametrize(
    "found, best, closed, aims",
    [
        pytest.param(document(6.0, {"kpa": 9.0, "keda": 8.0}, 4.0), "keda", 0.5, [], id="half of the gap is closed"),
        pytest.param(
            document(7.0, {"kpa": 8.0}, 4.0), "kpa", 0.25, ["less than half of the gap"], id="a quarter is closed"
        ),
        pytest.param(document(4.1, {"kpa": 4.2}, 4.0), "kpa", None, [], id="a gap below 10 % needs no closing"),
        pytest.param(document(6.0, {"kpa": None}, 4.0), None, None, [], id="no peer reaches the share"),
        pytest.param(
            document(9.0, {"kpa": 8.0}, 4.0), "kpa", -0.25, ["dearer than kpa", "less than half"], id="dearer"
        ),
        pytest.param(
            document(6.0, {"kpa": None}, 4.0, share=0.97), None, None,
            ["the share is 0.9700, not 0.99; a constant 5 would have kept it"], id="the promise is broken",
        ),
    ],
)  # fmt: skip
def test_a_verdict(found: dict[str, Any], best: str | None, closed: float | None, aims: list[str]) -> None:
    one = verdict(found)

    assert one["bestPeer"] == best
    assert one["gapClosed"] == (None if closed is None else pytest.approx(closed))
    said = missed(one, 0.99)
    assert len(said) == len(aims)
    assert all(sentence.startswith(start) for sentence, start in zip(said, aims, strict=True))


def test_where_no_constant_number_keeps_the_share_none_is_named() -> None:
    found = document(6.0, {"kpa": None}, 4.0, share=0.97)
    static = next(one for one in found["policies"] if one["policy"] == "static")
    static["points"], static["asShipped"] = [{"parameter": "4", "share": 0.98}], None

    said = missed(verdict(found), 0.99)
    assert said == ["the share is 0.9700, not 0.99; no constant number in the bounds would have kept it"]
    text = lines("small", 1, [(cases("small")[0][0], found)])
    assert "| static | nothing inside the bounds keeps the share | | | | | | |" in text


def test_the_section_names_each_case_its_figures_and_the_aims_that_are_not_reached() -> None:
    case = cases("small")[0][0]
    text = lines("small", 1, [(case, document(7.0, {"kpa": 8.0, "keda": None}, 4.0))])

    assert text[0].startswith("`make bench-autoscaler SIZE=small`: 1 of 4 cases, 1 seed(s)")
    assert f"| {case.name} | 180s | 0.9950 | 7.00 | kpa | 8.00 | 4.00 | 25% | 5 |" in text
    assert text[text.index("Aims that are not reached:") + 1].startswith(f"- {case.name}, 180s: less than half")
    assert "| keda | 0.9950 | 9.00 | 100 | 0.900 | 3 | - | - |" in text


def test_a_size_that_there_is_not_is_named() -> None:
    with pytest.raises(SystemExit, match="SIZE=huge is neither small nor full"):
        cases("huge")


def test_without_the_data_it_says_what_is_missing_and_where_it_is_public(tmp_path: Path) -> None:
    environment = os.environ | {"MODELFLEET_DATA": str(tmp_path), "PYTHONPATH": str(ROOT / "tests")}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.autoscaler", "small"], env=environment, capture_output=True, text=True
    )

    assert done.returncode == 1
    assert "AzureLLMInferenceTrace_code.csv is missing" in done.stderr
    assert "github.com/Azure/AzurePublicDataset" in done.stderr
    assert "Traceback" not in done.stderr
