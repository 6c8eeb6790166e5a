"""Whose requests are no measure: pods that are late in most of what they do, while the others are well."""

import pytest

from modelfleet.core.scaling.blame import broken, culprits
from modelfleet.core.scaling.observed import Tally
from modelfleet.core.scaling.samples import PodSamples, Samples

TARGET = 0.95


def pods(*each: tuple[int, int]) -> dict[str, Tally]:
    """(requests, good) of each."""
    return {f"pod-{number}": Tally(arrivals=of, ended=of, good=good) for number, (of, good) in enumerate(each)}


@pytest.mark.parametrize(
    ("done", "found"),
    [
        pytest.param(pods(*[(100, 20)] * 2, *[(100, 99)] * 4), {"pod-0", "pod-1"}, id="two of six"),
        pytest.param(pods(*[(100, 20)] * 3, *[(100, 99)] * 3), set(), id="half of them: who is the measure?"),
        pytest.param(pods(*[(400, 100)] * 2, *[(100, 99)] * 4), set(), id="two to which most of the load comes"),
        pytest.param(pods(*[(100, 30)] * 2, *[(100, 60)] * 4), set(), id="all are late, two of them by chance more"),
        pytest.param(pods((9, 0), *[(100, 99)] * 5), set(), id="too few requests"),
    ],
)
def test_late_in_most_of_what_they_do(done: dict[str, Tally], found: set[str]) -> None:
    assert broken(done, TARGET) == found


@pytest.mark.parametrize("hot", [150, 151])
def test_a_pod_to_which_half_as_much_again_comes_is_not_to_blame(hot: int) -> None:
    done = pods((hot, 60), (100, 99), (40, 40))
    samples = Samples(at_s=0.0, pods={uid: PodSamples(uid=uid, name=uid, revision="r") for uid in done})

    assert [each.uid for each in culprits(samples, done, broken(done, TARGET), TARGET)] == (
        ["pod-0"] if hot == 150 else []
    )
