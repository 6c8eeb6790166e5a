"""Since when an engine is warm: two minutes after its first request, anew after each start of it."""

import pytest

from modelfleet.core.scaling.blame import WARM_S, warm_s
from modelfleet.core.scaling.joining import Series
from modelfleet.core.scaling.reading import STARTING, ObjectiveCounts, Outcomes, Reading
from modelfleet.core.scaling.samples import PodSamples

STEP_S = 30.0
"""Of what is older than a minute so much is between two readings, so that the first request is known so well."""


def pod(looks: list[tuple[float, str, int]]) -> PodSamples:
    """As it is known after reading pages: (when, state, requests ended since the worker's start)."""
    series = Series(pod=PodSamples(uid="a", name="a", revision="r"))
    for at_s, state, ended in looks:
        counts = ObjectiveCounts(ended=Outcomes(met=ended))
        series = series.read(
            Reading(pod_uid="a", at_s=at_s, state=state, promise="p", promises={"p": {"chat": counts}})
        )
    return series.pod


@pytest.mark.parametrize(
    ("looks", "first_s"),
    [
        pytest.param([(0, "serving", 50), (200, "serving", 90)], 0, id="known for long"),
        pytest.param([(0, STARTING, 0), (30, "serving", 0), (90, "serving", 4)], 90, id="it served nothing at first"),
        pytest.param(
            [(0, "serving", 50), (60, STARTING, 50), (90, "serving", 50), (120, "serving", 51)],
            120,
            id="its engine started again in the same pod",
        ),
        pytest.param(
            [(each * 5.0, STARTING if 25 <= each <= 26 else "serving", 50 + each) for each in range(61)],
            135,
            id="its engine started again within ten seconds, a while ago",
        ),
        pytest.param(
            [(each * 5.0, "serving", 50 + each if each < 25 else each - 25) for each in range(61)],
            130,
            id="its worker started again between two looks",
        ),
        pytest.param([(0, STARTING, 0), (30, "serving", 0)], 300, id="it has answered nothing"),
    ],
)
def test_an_engine_is_warm_two_minutes_after_the_first_request_since_its_start(
    looks: list[tuple[float, str, int]], first_s: float
) -> None:
    found_s = 300.0 - WARM_S - warm_s(pod(looks), 300.0, "p", ["chat"])

    assert first_s <= found_s <= first_s + STEP_S
