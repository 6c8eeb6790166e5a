"""What readings say about a window: value, zero and no data; restarts, pods that go, and what is kept."""

from dataclasses import replace
from itertools import pairwise

import pytest

from modelfleet.core.promise import digest
from modelfleet.core.scaling.joining import Series, thinned
from modelfleet.core.scaling.reading import Histogram, ObjectiveCounts, Outcomes, Reading, histogram
from modelfleet.core.scaling.samples import FRESH_S, WINDOW_S, PodSamples, counted, queued
from sampled import Sampled, parsed, worker
from worker_pages import Numbers, good


def found(sampled: Sampled, window_s: float = WINDOW_S):
    return counted(sampled.samples, digest(sampled.deployment), "interactive", window_s=window_s)


def test_a_count_is_the_difference_between_the_ends_of_the_window():
    sampled = Sampled().follow(worker())
    sampled.over(60, [good(100), good(160, 3)])
    assert (found(sampled).counts.ended, found(sampled).span_s) == (Outcomes(met=60, late_ttft=3), 60)


def test_no_traffic_is_zero_and_no_reading_is_no_data():
    sampled = Sampled().follow(worker())
    assert (found(sampled), queued(sampled.samples)) == (None, None)
    sampled.read(good(5))
    assert (found(sampled), queued(sampled.samples).waiting) == (None, 0), "one reading has no difference"
    sampled.now_s += 5
    sampled.read(good(5))
    assert found(sampled).counts.arrivals == 0


def test_another_promise_has_no_data_yet():
    sampled = Sampled().follow(worker())
    sampled.over(10, [good(1), good(9)])
    other = parsed(objectives=[{**_objective(sampled), "ttft": "900ms"}])
    assert counted(sampled.samples, digest(other), "interactive") is None


def _objective(sampled: Sampled):
    return sampled.deployment.spec.objectives[0].model_dump(mode="json", by_alias=True, exclude_none=True)


def test_a_restart_of_the_counters_is_seen_in_all_of_them_at_once():
    sampled = Sampled().follow(worker())
    anew = [Numbers(arrivals=25, ended={"met": 4}), Numbers(arrivals=26, ended={"met": 6})]
    sampled.over(20, [good(10), good(20), *anew])
    assert (found(sampled).counts.arrivals, found(sampled).counts.ended.met) == (10 + 26, 10 + 6)


def test_what_a_pod_counted_before_it_went_stays_in_the_window_and_its_queue_does_not():
    sampled = Sampled().follow(worker(0), worker(1))
    sampled.over(10, [good(0), good(50, in_flight=7)], worker(0))
    sampled.over(10, [good(0), good(5, in_flight=1)], worker(1))
    sampled.follow(worker(1))
    assert (found(sampled).counts.arrivals, found(sampled).counts.in_flight) == (55, 1)
    assert queued(sampled.samples).in_flight == 1
    sampled.now_s += WINDOW_S
    assert sampled.samples.gone == ()


def test_a_pod_that_is_not_followed_any_more_is_not_taken():
    sampled = Sampled().follow(worker(0))
    sampled.follow(worker(1))
    sampled.read(good(5), worker(0))
    assert (sampled.samples.pods["uid-1"].readings, sampled.samples.gone) == ((), ())


def test_a_silent_pod_says_nothing_about_now():
    sampled = Sampled().follow(worker())
    sampled.over(10, [good(0), good(5, in_flight=3)])
    sampled.now_s += FRESH_S + 1
    assert (queued(sampled.samples), sampled.samples.silent(["uid-0"])) == (None, ("uid-0",))
    assert found(sampled).counts.in_flight == 0


def test_the_same_sample_read_again_changes_nothing():
    sampled = Sampled().follow(worker())
    sampled.over(10, [good(0), good(5)])
    before = sampled.samples
    sampled.read(good(5))
    assert sampled.samples == before


def _reading(at_s: float) -> Reading:
    return Reading(pod_uid="u", at_s=at_s)


def test_thinning_keeps_the_last_minute_the_newest_and_one_reading_before_the_window():
    readings: tuple[Reading, ...] = ()
    for step in range(200):
        readings = thinned((*readings, _reading(step * 5.0)), step * 5.0)
    now_s, at_s = 995.0, [each.at_s for each in readings]
    assert at_s[0] <= now_s - WINDOW_S < at_s[1]
    assert [each for each in at_s if each > now_s - 60] == [now_s - 55 + 5 * step for step in range(12)]
    assert all(30 <= b - a <= 35 for a, b in pairwise(at_s) if b < now_s - 60)
    assert len(at_s) < 24


@pytest.mark.parametrize(("window_s", "expected"), [(30.0, 60), (60.0, 120), (300.0, 600)])
def test_a_window_is_measured_whatever_was_thinned_out(window_s: float, expected: int):
    series = Series(pod=PodSamples(uid="u", name="n", revision="r"))
    for step in range(121):
        counts = {"d": {"o": ObjectiveCounts(arrivals=10 * step)}}
        series = series.read(replace(_reading(step * 5.0), promises=counts))
    first, last = series.pod.ends(600.0, window_s)
    rate = (last.of("d", "o").arrivals - first.of("d", "o").arrivals) / (last.at_s - first.at_s)
    assert rate == pytest.approx(expected / window_s)


def test_quantiles_come_from_the_buckets_and_above_the_last_edge_is_that_edge():
    values = histogram((1.0, 2.0), [50, 90, 100], 0.0)
    assert values == Histogram((1.0, 2.0), (50, 40, 10), 0.0)
    assert (values.quantile(0.5), values.quantile(0.7), values.quantile(0.99)) == (1.0, 1.5, 2.0)
    assert values.share_above(2.0) == pytest.approx(0.1)
    empty = Histogram((1.0,), (0, 0), 0.0)
    assert (empty.quantile(0.5), empty.share_above(1.0)) == (None, None)
