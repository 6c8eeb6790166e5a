"""Who leaves first, and how one leaves."""

from dataclasses import replace
from datetime import timedelta

import pytest

from builders import START
from modelfleet.api.reasons import Reason
from modelfleet.core.drain import Terms, Work, first_to_leave, leave
from modelfleet.core.failures import Failure
from modelfleet.core.groups import alone
from scenes import NEW, OFF, STARTING, old, pod

BROKEN = {"ready": False, "failure": Failure(Reason.ENGINE_DIED, "it died", hopeless=False)}


def test_victims_are_ordered_broken_old_least_work_least_warmth_most_freed_highest_slot() -> None:
    pods = [
        pod(0),  # the lowest slot of those of which nothing is known
        pod(1),
        pod(2, uid="warm"),
        pod(3, uid="cold"),
        pod(4, uid="frees"),
        pod(5, uid="idle"),
        old(6),
        pod(7, **STARTING),
        pod(8, **BROKEN),
        pod(9, **OFF),
    ]
    work = {
        "warm": Work(in_flight=5, warm_tokens=900),
        "cold": Work(in_flight=5, warm_tokens=10),
        "frees": Work(whole_nodes=1),
        "idle": Work(in_flight=0, warm_tokens=900),
    }
    order = first_to_leave(map(alone, pods), NEW, work)
    assert [replica.slot for replica in order] == [9, 8, 7, 6, 5, 3, 2, 4, 1, 0]


def test_of_those_that_start_the_one_without_a_node_leaves_first_and_then_the_youngest() -> None:
    """It is furthest from serving, whatever node it would free."""
    starting = {**STARTING, "placed": True}
    pods = [
        pod(0, **starting, created_at=START),
        pod(1, **starting, created_at=START + timedelta(minutes=8)),
        pod(2, **starting, created_at=START + timedelta(minutes=1), uid="frees"),
        pod(3, **STARTING, placed=False, created_at=START),
    ]
    order = first_to_leave(map(alone, pods), NEW, {"frees": Work(whole_nodes=1)})
    assert [replica.slot for replica in order] == [3, 1, 2, 0]


TERMS = Terms(propagation_s=5.0)


@pytest.mark.parametrize(
    ("changes", "terms", "ends", "wake_after_s"),
    [
        pytest.param(STARTING, TERMS, "delete", None, id="one that gets no requests is deleted at once"),
        pytest.param({}, TERMS, "off", 5.0, id="one that serves is taken out of the Service first"),
        pytest.param(OFF, replace(TERMS, out_s={"u": 2.0}), "", 3.0, id="arrivals are served for a while"),
        pytest.param(OFF, replace(TERMS, out_s={"u": 5.0}), "delete", None, id="then it is deleted"),
        pytest.param(
            OFF,
            replace(TERMS, out_s={"u": 5.0}, work={"u": Work(in_flight=3)}),
            "delete",
            None,
            id="what it answers then is the worker's to finish",
        ),
    ],
)
def test_how_one_leaves(changes: dict[str, bool], terms: Terms, ends: str, wake_after_s: float | None) -> None:
    going = leave([alone(pod(0, uid="u", **changes))], terms)
    assert ("delete" if going.delete else "off" if going.off else "") == ends
    assert going.wake_after_s == wake_after_s
