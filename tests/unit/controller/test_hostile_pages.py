"""What one page can make the operator do and remember: whoever can write into a pod can answer as its page."""

import pytest

from modelfleet.controller.metrics.exposition import Exposition
from modelfleet.core.scaling.page import PageError, reading
from sampled import Sampled, worker
from worker_pages import good

PAGE = Sampled().page(worker(), good(5)).text


def test_lines_that_no_reading_is_made_of_are_not_remembered():
    exposition = Exposition()
    before = exposition.found(PAGE)
    known = len(exposition._known)
    assert exposition.found(PAGE + "".join(f"other_{i} 1\n" for i in range(9000))) == before
    assert len(exposition._known) == known <= len(before)


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
