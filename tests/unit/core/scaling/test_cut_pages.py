"""A page that lacks something says nothing of it: not zero, and what was counted before is not counted again."""

import re
from dataclasses import replace

import pytest

from modelfleet.core.promise import digest
from modelfleet.core.scaling.goodput import measure
from modelfleet.core.scaling.observed import Look, Tally, see
from modelfleet.core.scaling.samples import counted
from sampled import KEY, Sampled, parsed, worker
from worker_pages import good

LENGTHS = {"ttft_s": [0.1] * 50, "prompts": [90] * 50, "answers": [40] * 50}


def look(sampled: Sampled) -> Look:
    return Look(promise=digest(sampled.deployment), objectives=("interactive",), serving=("uid-0",))


def read(sampled: Sampled, text: str) -> str | None:
    return sampled.book.take(worker(), sampled.exposition.found(text), sampled.now_s)


def without(text: str, pattern: str) -> str:
    kept = "".join(line for line in text.splitlines(keepends=True) if not re.search(pattern, line))
    assert kept != text, "the page has such lines"
    return kept


CUTS = {
    "the whole promise": "goodput|promise|put_tokens",
    "what arrived": "goodput_arrivals",
    "one outcome": 'outcome="late_tpot"',
    "all that ended": "goodput_requests_total",
    "a bucket": 'ttft_seconds_bucket.*le="0.5"',
    "a histogram": "goodput_ttft_seconds",
    "a histogram's sum": "input_tokens_sum",
    "all counts but not the promise's name": "goodput|put_tokens",
}


@pytest.mark.parametrize("cut", [pytest.param(pattern, id=name) for name, pattern in CUTS.items()])
def test_a_page_that_lacks(cut: str):
    sampled = Sampled().follow(worker())
    sampled.read(good(90_000, 40, **LENGTHS))
    before = see(sampled.samples, {}, look(sampled))
    sampled.now_s += 5
    said = read(sampled, without(sampled.page(worker(), good(90_010, 40, **LENGTHS)).text, cut))
    assert said, "it is no reading"
    seen = see(sampled.samples, before.cursors, look(sampled))
    assert seen.total == Tally()
    sampled.now_s += 5
    assert sampled.read(good(90_020, 40, **LENGTHS)) is None

    whole = see(sampled.samples, seen.cursors, look(sampled)).total
    assert (whole.arrivals, whole.ended, whole.good) == (20, 20, 20)
    found = counted(sampled.samples, digest(sampled.deployment), "interactive")
    assert (found.counts.arrivals, found.counts.ended.met) == (20, 20)


def test_one_objective_of_two_that_is_missing_makes_a_page_no_reading():
    first = parsed().spec.objectives[0].model_dump(mode="json", by_alias=True, exclude_none=True)
    two = Sampled(deployment=parsed(objectives=[first, {**first, "name": "batch"}])).follow(worker())
    numbers = {"interactive": good(5), "batch": good(7)}
    assert two.read(numbers) is None
    two.now_s += 5
    assert read(two, without(two.page(worker(), numbers).text, 'objective="batch"'))
    assert len(two.samples.pods["uid-0"].readings) == 1


def test_an_earlier_promise_may_go_and_come_back_and_is_counted_from_where_it_stands():
    """Three promises one after the other, then the first again: a page shows the present one and one before it."""
    first = parsed().spec.objectives[0].model_dump(mode="json", by_alias=True, exclude_none=True)
    promises = [Sampled(deployment=parsed(objectives=[{**first, "ttft": f"{ms}ms"}])) for ms in (500, 600, 700)]
    sampled = promises[0].follow(worker())
    for step, (which, count) in enumerate(((0, 500), (1, 30), (2, 20), (0, 3), (0, 8))):
        assert read(sampled, promises[which].page(worker(), good(count)).text) is None, step
        sampled.now_s += 5
    found = counted(sampled.samples, digest(sampled.deployment), "interactive")
    assert (found.counts.arrivals, found.counts.ended.met) == (8, 8)


@pytest.mark.parametrize(
    "lie",
    [
        pytest.param({"longer": {"met": 0}}, id="requests that are apart"),
        pytest.param({"prompts": [90] * 3}, id="a histogram"),
        pytest.param({"ttft_s": [0.1] * 49 + [9.0]}, id="one bucket of a histogram"),
    ],
)
def test_whatever_falls_while_arrivals_grow_begins_anew(lie: dict):
    sampled = Sampled().follow(worker())
    sampled.read(good(900, longer={"met": 40}, **LENGTHS))
    sampled.now_s += 70
    sampled.read(good(960, longer={"met": 41}, **LENGTHS))
    sampled.now_s += 70
    sampled.read(good(961, **{"longer": {"met": 41}, **LENGTHS, **lie}))
    found = counted(sampled.samples, digest(sampled.deployment), "interactive")
    for histogram in (found.counts.ttft_s, found.counts.input_tokens):
        assert min(histogram.counts) >= 0
    assert min(found.counts.longer.met, found.counts.arrivals) >= 0
    assert measure(sampled.deployment, sampled.samples, ["uid-0"]).requests > 0


def test_a_page_that_names_two_pods_is_of_neither():
    sampled = Sampled().follow(worker(0), worker(1))
    mixed = sampled.page(worker(0), good(5)).text + sampled.page(worker(1), good(9)).text
    for each in (worker(0), worker(1)):
        why = sampled.book.take(each, sampled.exposition.found(mixed), sampled.now_s)
        assert why == "its page names 2 pods, and a page is of one"


def test_a_pod_that_is_not_listed_for_a_moment_is_counted_once():
    sampled = Sampled().follow(worker())
    sampled.over(20, [good(100), good(200)])
    cursors = see(sampled.samples, {}, look(sampled)).cursors
    sampled.follow()
    sampled.now_s += 5
    sampled.follow(worker())
    total = 0
    for count in (210, 220, 230):
        sampled.now_s += 5
        sampled.read(good(count))
        seen = see(sampled.samples, cursors, look(sampled))
        total, cursors = total + seen.total.arrivals, seen.cursors
    assert total == 30
    found = counted(sampled.samples, digest(sampled.deployment), "interactive")
    assert found.counts.arrivals == 130
    assert sampled.book.samples(KEY).gone == ()


def test_a_pod_of_the_same_uid_that_changed_its_address_goes_on():
    sampled = Sampled().follow(worker())
    sampled.read(good(100))
    sampled.follow(replace(worker(), host="10.0.0.9"))
    sampled.now_s += 5
    sampled.read(good(130))
    found = counted(sampled.samples, digest(sampled.deployment), "interactive")
    assert found.counts.arrivals == 30
