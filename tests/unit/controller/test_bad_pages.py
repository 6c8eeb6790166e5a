"""Whoever can write into a pod can answer as its page: whatever comes, it is a reading or one sentence."""

from hypothesis import given, settings
from hypothesis import strategies as st

from modelfleet.controller.metrics.exposition import Exposition
from modelfleet.core.scaling.goodput import measure
from modelfleet.core.scaling.page import PageError, reading
from modelfleet.core.scaling.samples import counted, queued
from modelfleet.core.scaling.seen import observed
from modelfleet.core.scaling.stirs import busy
from sampled import Sampled, worker
from worker_pages import good

PAGE = Sampled().page(worker(), good(9, 1, ttft_s=[0.1] * 10, prompts=[90] * 10)).text
LINES = [line for line in PAGE.splitlines() if line and not line.startswith("#")]
ODD = ["NaN", "+Inf", "-1", "1e400", "1e308", "0x1", "", "1 2", "٣", "1_000"]
NUMBERS = st.sampled_from(ODD) | st.floats().map(str)
EXPOSITION = Exposition()


@st.composite
def pages(draw: st.DrawFn) -> str:
    """A page of which some lines were cut, repeated, or given another number or another text."""
    lines = list(LINES)
    for _ in range(draw(st.integers(1, 6))):
        index = draw(st.integers(0, len(lines) - 1))
        match draw(st.sampled_from(["number", "cut", "twice", "text", "gone"])):
            case "number":
                lines[index] = f"{lines[index].rpartition(' ')[0]} {draw(NUMBERS)}"
            case "cut":
                lines[index] = lines[index][: draw(st.integers(0, 60))]
            case "twice":
                lines.insert(draw(st.integers(0, len(lines))), lines[index])
            case "text":
                lines[index] = draw(st.text(max_size=60))
            case "gone":
                lines = lines[:index] + lines[index + 1 :] or [""]
    end = draw(st.sampled_from(["\n", "\n", "\n", ""]))
    return "\n".join(lines) + end


@settings(max_examples=300, deadline=None)
@given(text=pages())
def test_a_spoilt_page_is_a_reading_or_a_sentence(text: str):
    said = ""
    try:
        found = reading(EXPOSITION.found(text), "uid-0", 1.0)
    except PageError as error:
        said = str(error)
    assert 0 < len(said) < 400 or found.pod_uid == "uid-0"


@settings(max_examples=100, deadline=None)
@given(texts=st.lists(pages(), min_size=2, max_size=4))
def test_what_is_made_of_spoilt_pages_never_fails(texts: list[str]):
    sampled = Sampled().follow(worker())
    for text in texts:
        try:
            sampled.book.take(worker(), EXPOSITION.found(text), sampled.now_s)
        except PageError as error:
            sampled.book.fail("uid-0", str(error))
        sampled.now_s += 70
    samples = sampled.samples
    found = measure(sampled.deployment, samples, ["uid-0"])
    busy(samples)
    queued(samples)
    observed(sampled.deployment, samples, found)
    assert counted(samples, "no such promise", "none") is None
