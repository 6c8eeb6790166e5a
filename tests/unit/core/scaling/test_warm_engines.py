"""Since when an engine is warm: two minutes after its first request, anew after each start of it."""

import pytest

from modelfleet.core.scaling.blame import WARM_S, warm_s
from modelfleet.core.scaling.reading import STARTING, ObjectiveCounts, Outcomes, Reading
from modelfleet.core.scaling.samples import PodSamples


def pod(*looks: tuple[float, str, int]) -> PodSamples:
    """(when, state, requests ended since the pod's beginning)."""
    readings = (
        Reading(
            pod_uid="a",
            at_s=at_s,
            state=state,
            promise="p",
            promises={"p": {"chat": ObjectiveCounts(ended=Outcomes(met=ended))}},
        )
        for at_s, state, ended in looks
    )
    return PodSamples(uid="a", name="a", revision="r", readings=tuple(readings))


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
        pytest.param([(0, STARTING, 0), (30, "serving", 0)], 300, id="it has answered nothing"),
    ],
)
def test_an_engine_is_warm_two_minutes_after_the_first_request_since_its_start(
    looks: list[tuple[float, str, int]], first_s: float
) -> None:
    assert warm_s(pod(*looks), 300.0, "p", ["chat"]) == 300.0 - first_s - WARM_S
