"""What one page can make the operator do and remember: whoever can write into a pod can answer as its page."""

import pytest

from modelfleet.controller.metrics.exposition import Exposition
from modelfleet.core.scaling.page import PageError, reading
from sampled import Sampled, promise_of, worker
from worker_pages import good

PAGE = Sampled().page(worker(), good(5)).text
DIGEST = promise_of(Sampled().deployment).digest
PAGE_HEADS = [each for each in Exposition().found(PAGE) if each.promise]


def test_lines_that_no_reading_is_made_of_are_not_remembered():
    exposition = Exposition()
    before = exposition.found(PAGE)
    known = len(exposition._known)
    assert exposition.found(PAGE + "".join(f"other_{i} 1\n" for i in range(9000))) == before
    assert len(exposition._known) == known <= len(before)


@pytest.mark.parametrize("name", ["modelfleet_worker_waiting", "modelfleet_engine_steps_total"])
def test_a_page_of_ever_new_labels_cannot_make_us_remember_more_than_there_is_room_for(name: str):
    exposition, most = Exposition(most_known=2_000), 0
    for look in range(20):
        exposition.found(PAGE + "".join(f'{name}{{decode="{look}-{i}"}} 1\n' for i in range(500)), steps=True)
        most = max(most, len(exposition._known) + len(exposition._steps))
    assert most <= 2_000


def test_pages_that_are_more_than_there_is_room_for_are_mostly_known_at_the_next_look():
    """All are read in the same order each time; nothing is gained by keeping those that were read last."""
    exposition, learned = Exposition(most_known=2_000), 0
    pages = [PAGE.replace(DIGEST, f"{model:012x}") for model in range(30)]
    for looked in range(4):
        for text in pages:
            before = set(exposition._known)
            exposition.found(text)
            learned += len(exposition._known.keys() - before) if looked else 0
    lines = len(PAGE_HEADS) * len(pages)
    assert 2_000 < lines < 2_300
    assert learned < 0.5 * 3 * lines


@pytest.mark.parametrize(
    ("more", "why"),
    [
        pytest.param(
            "".join(f'modelfleet_worker_waiting{{n="{i}"}} 1\n' for i in range(6000)),
            "the page has more than 5000 metrics",
            id="endless spellings",
        ),
        pytest.param(f'modelfleet_worker_waiting{{n="{"x" * 2000}"}} 1\n', "is no sample", id="an endless name"),
        pytest.param("modelfleet_worker_waiting{ 1\n", "is no sample", id="half a name"),
    ],
)
def test_a_page_is_given_up_for(more: str, why: str):
    with pytest.raises(PageError, match=why):
        Exposition().found(PAGE + more)


def test_a_histogram_of_endless_buckets_is_none():
    line = next(each for each in PAGE.splitlines() if "ttft_seconds_bucket" in each)
    head = line.partition('le="')[0]
    rest = line.partition('le="')[2].partition('"')[2].rpartition(" ")[0]
    more = "".join(f'{head}le="{edge}"{rest} 0\n' for edge in range(10, 400))
    with pytest.raises(PageError, match="buckets, and no worker's has"):
        reading(Exposition().found(PAGE + more), "uid-0", 1.0)
