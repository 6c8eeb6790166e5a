"""Where the seconds of a start go, what is kept of starts, and how far the coming one is said to be."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from builders import START, Raw, merged
from modelfleet.cli.explain_zero import to_zero_lines
from modelfleet.core.cold_start import (
    STARTS,
    Outlook,
    Seen,
    Starts,
    outlook,
    quantiles,
    read_starts,
    start_of,
    starts_entry,
    with_new,
)
from modelfleet.core.groups import alone
from modelfleet.core.scaling.break_even import Record, advice, break_even_s, spoken
from modelfleet.core.scaling.reading import Reading
from modelfleet.core.scaling.reading import Start as WorkerStart
from modelfleet.core.scaling.samples import PodSamples, Samples
from scenes import NEW, STARTING, pod
from zero_site import Site

PHASES = {"preflight": 1.0, "boot": 9.0, "load": 30.0, "compile": 20.0, "warm_up": 10.0, "first_token": 2.0}


def at(seconds: float) -> str:
    return (START + timedelta(seconds=seconds)).isoformat()


def started(**change: Any) -> Raw:
    """A pod that was bound after 3 s, had its images after 13 s, its weights after 53 s, and was Ready after 130 s."""
    base: Raw = {
        "metadata": {"name": "p", "creationTimestamp": at(0)},
        "status": {
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(3)},
                {"type": "Ready", "status": "True", "lastTransitionTime": at(130)},
            ],
            "initContainerStatuses": [
                {"name": "fetch", "state": {"terminated": {"startedAt": at(13), "finishedAt": at(53)}}}
            ],
            "containerStatuses": [{"name": "worker", "state": {"running": {"startedAt": at(55)}}, "restartCount": 0}],
        },
    }
    return merged(base, change)


def told(progress: float | None = None, left_s: float | None = None) -> Reading:
    start = WorkerStart(progress=progress, left_s=left_s, phases_s=PHASES)
    return Reading(pod_uid="u", at_s=0.0, start=start)


def test_the_seconds_of_each_phase_add_up_to_the_whole_start() -> None:
    start = start_of(started(), told())

    assert start == {"scheduled": 3, "image": 12, "weights": 40, "load": 40, "compile": 30, "ready": 5}
    assert sum(start.values()) == 130


def test_without_the_workers_word_its_part_is_one_phase() -> None:
    assert start_of(started(), None) == {"scheduled": 3, "image": 12, "weights": 40, "engine": 75}


def test_without_a_fetch_there_is_no_such_phase() -> None:
    start = start_of(started(status={"initContainerStatuses": None}), told())

    assert (start["image"], "weights" in start) == (52, False)


@pytest.mark.parametrize(
    "status",
    [
        {"containerStatuses": [{"name": "worker", "state": {"running": {"startedAt": at(55)}}, "restartCount": 1}]},
        {"containerStatuses": None},
        {"conditions": []},
    ],
    ids=["a restarted container", "no container", "no conditions"],
)
def test_a_start_that_was_not_whole_is_not_measured(status: Raw) -> None:
    assert start_of(started(status=status), told()) == {}


def seen(reading: Reading | None) -> Seen:
    name = f"chat-{NEW}-0"
    pods = {name: PodSamples(uid=name, name=name, revision=NEW, readings=(reading,))} if reading else {}
    return Seen(pods={name: started()}, classes={NEW: "h100"}, samples=Samples(at_s=0.0, pods=pods))


def test_each_start_is_kept_once_and_the_last_ones_only() -> None:
    fleet, now = (alone(pod(0)),), START + timedelta(seconds=131)
    first = with_new(Starts(), fleet, seen(told()), now)
    assert with_new(first, fleet, seen(told()), now) == first
    many = Starts(by_class={"h100": first.by_class["h100"] * STARTS})

    assert len(with_new(many, fleet, seen(told()), now).by_class["h100"]) == STARTS
    assert with_new(first, (), seen(None), now).seen == frozenset()
    assert read_starts(starts_entry(first)) == first


def test_the_workers_word_is_waited_for_a_minute() -> None:
    fleet = (alone(pod(0)),)

    assert with_new(Starts(), fleet, seen(None), START + timedelta(seconds=180)).by_class == {}
    (start,) = with_new(Starts(), fleet, seen(None), START + timedelta(seconds=190)).by_class["h100"]
    assert start["engine"] == 75


@pytest.mark.parametrize("entry", [{}, {"classes": 3, "seen": 4}, {"classes": {"a": [1, {"load": "x"}]}}])
def test_what_cannot_be_read_is_as_if_it_were_not_there(entry: Raw) -> None:
    assert not any(read_starts(entry).by_class.values())


@pytest.mark.parametrize(
    ("reading", "usual_s", "expected"),
    [
        (told(0.4, 30.0), 100.0, Outlook(phase="ready", share=0.4, left_s=30.0)),
        (told(), 240.0, Outlook(phase="ready", share=0.25, left_s=180.0)),
        (told(), 50.0, Outlook(phase="ready")),
        (None, None, Outlook(phase="engine")),
    ],
    ids=["the worker's word", "by what is usual", "longer than usual: nothing tells", "nothing is known"],
)
def test_how_far_a_start_is(reading: Reading | None, usual_s: float | None, expected: Outlook) -> None:
    coming = alone(pod(0, **STARTING, created_at=START))

    assert outlook(coming, started(), reading, usual_s, START + timedelta(seconds=60)) == expected


def test_quantiles_are_by_nearest_rank() -> None:
    found = quantiles(tuple(map(float, range(1, 11))))

    assert found is not None
    assert (found.p50_s, found.p90_s) == (5.0, 9.0)
    assert quantiles(()) is None


RECORD = Record(
    span_s=7 * 86400,
    at_zero_s=0.71 * 7 * 86400,
    wakes=10,
    after_s=900,
    accelerators=1,
    start_p50_s=170,
    start_p90_s=190,
)


def test_advice_has_what_was_saved_what_the_first_caller_waits_and_which_pauses_pay() -> None:
    assert advice(RECORD) == (
        "at zero 71% of the last 7 days, woken 10 times, which saved 119 accelerator-hours net of the starts; the first"
        " caller waits 3 min 10 s at p90; pauses longer than 17 min 50 s save (15 min idle and a start)"
    )
    assert break_even_s(900, 170) == 1070


def test_a_model_that_wakes_all_the_time_is_told_so() -> None:
    busy = advice(replace(RECORD, at_zero_s=600.0, wakes=40))

    assert "which cost 1.72 accelerator-hours" in busy
    assert busy.endswith("a longer toZero.after, or minReplicas of 1, costs less")


def test_before_anything_was_measured_there_is_no_advice() -> None:
    assert advice(Record(span_s=0, at_zero_s=0, wakes=0, after_s=900, accelerators=1)) == ""


@pytest.mark.parametrize(("seconds", "words"), [(0, "0 s"), (40, "40 s"), (190, "3 min 10 s"), (7500, "2 h 5 min")])
def test_times_are_spoken(seconds: float, words: str) -> None:
    assert spoken(seconds) == words


def test_the_status_and_explain_say_where_the_seconds_went() -> None:
    site = Site()
    site.pass_time(15)
    (live,) = site.pods().values()
    live["status"] = {**started()["status"], "phase": "Running"}
    live["metadata"]["creationTimestamp"] = at(0)
    site.now = START + timedelta(seconds=191)
    site.look()
    start = site.deployment["status"]["coldStart"]

    assert (start["class"], start["starts"], start["p50Seconds"]) == ("cpu", 1, 130)
    assert [each["name"] for each in start["phases"]] == ["scheduled", "image", "weights", "engine"]
    said = "\n".join(to_zero_lines(site.deployment["status"]))
    assert "Cold start on cpu, of 1 measured" in said
    assert "weights" in said
    assert "40 s" in said
