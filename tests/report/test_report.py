"""The html report, as a user sees it: in a wide window and on a phone, by day and by night."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.sync_api import Browser
from seen import PHONE, WIDE, Seen, contrast, look, overlaps, rgb

from modelfleet.cli.report.page import html
from modelfleet.core.layout.choose import answer
from modelfleet.core.layout.question import ApiPrice, EconomicsWish, Question
from modelfleet.core.model.facts import Scheme
from questions import LARGE, SMALL, objective, on, question, variants

LOOKS = [
    pytest.param(WIDE, "light", id="in a wide window"),
    pytest.param(WIDE, "dark", id="in a wide window in the dark"),
    pytest.param(PHONE, "light", id="on a phone"),
    pytest.param(PHONE, "dark", id="on a phone in the dark"),
]
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>{{ 7*7 }}</style><b>"


def feasible() -> Question:
    return question(
        variants=variants("Llama-3.3-70B-Instruct", Scheme.BF16, Scheme.FP8),
        candidates=(on(LARGE), on(SMALL)),
        objectives=(objective(ttft_s=4.0, tpot_s=0.3, share=0.9),),
        economics=EconomicsWish(
            api_price=ApiPrice(input_per_million=LARGE.price_per_hour, output_per_million=LARGE.price_per_hour),
            reasons=("DataControl",),
        ),
    )


def impossible() -> Question:
    return replace(feasible(), objectives=(objective(ttft_s=0.001, tpot_s=0.0001),))


def hostile() -> Question:
    asked = feasible()
    return replace(
        asked,
        variants=tuple(replace(one, source=HOSTILE) for one in asked.variants),
        candidates=(replace(asked.candidates[0], name=HOSTILE),),
    )


QUESTIONS = {"a plan": feasible, "no plan": impossible, "hostile names": hostile}


Looking = Callable[[str, int, str], Seen]


@pytest.fixture(scope="module")
def see(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Looking:
    """What a user sees of a page in a window; each is opened once."""
    folder = tmp_path_factory.mktemp("report")

    @cache
    def written(name: str) -> Path:
        asked = QUESTIONS[name]()
        path = folder / f"{name.replace(' ', '-')}.html"
        path.write_text(html(HOSTILE if name == "hostile names" else "support-chat", asked, answer(asked)))
        return path

    return cache(lambda name, width, scheme: look(browser, written(name), width, scheme))


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
@pytest.mark.parametrize("name", QUESTIONS)
def test_the_page_is_quiet_and_asks_for_nothing(name, width, scheme, see: Looking):
    page = see(name, width, scheme)
    assert page.said == ()
    (own,) = (url for url in page.asked if not url.startswith("data:"))
    assert own.startswith("file:")


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
@pytest.mark.parametrize("name", QUESTIONS)
def test_every_text_is_in_its_place_and_whole(name, width, scheme, see: Looking):
    page = see(name, width, scheme)
    assert len(page.texts) > 30
    assert not page.wider
    assert overlaps(page.texts) == []
    assert [one["text"] for one in page.texts if one["left"] < 0 or one["right"] > width] == []
    cut = [one for one in page.texts if one["right"] > one["cardRight"] or one["bottom"] > one["cardBottom"] + 1]
    assert cut == []


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
@pytest.mark.parametrize("name", QUESTIONS)
def test_every_text_is_large_enough_and_stands_out(name, width, scheme, see: Looking):
    texts = see(name, width, scheme).texts
    assert min(one["size"] for one in texts) >= 12
    assert {one["text"] for one in texts if contrast(one["colour"], one["behind"]) < 4.5} == set()


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_the_curve_the_bars_and_the_marks_are_in_the_window(width, scheme, see: Looking):
    shapes = see("a plan", width, scheme).shapes
    (plot,) = shapes[".plot svg"]
    assert plot["right"] - plot["left"] > 0.6 * width
    for selector, least in ((".plot polyline.line", 1), (".plot .target", 1), (".plot .knee", 1), (".bar", 3)):
        assert len(shapes[selector]) >= least, selector
        for shape in shapes[selector]:
            assert 0 <= shape["left"] <= shape["right"] <= width, selector
    (line,) = shapes[".plot polyline.line"]
    assert line["bottom"] - line["top"] > 0.3 * (plot["bottom"] - plot["top"])


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_the_parts_of_a_bar_fill_it_side_by_side_and_differ(width, scheme, see: Looking):
    shapes = see("a plan", width, scheme).shapes
    (track,) = shapes["#memory .bar"]
    parts = shapes["#memory .bar .part"]
    whole = track["right"] - track["left"]
    assert sum(part["right"] - part["left"] for part in parts) == pytest.approx(whole, rel=0.01)
    assert len({part["colour"] for part in parts}) == len(parts) >= 4
    for one, other in pairwise(parts):
        assert other["left"] == pytest.approx(one["right"], abs=0.5)


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_the_plot_has_ink_in_the_colours_of_its_lines(width, scheme, see: Looking):
    page = see("a plan", width, scheme)
    assert page.plot is not None
    counts = {colour: count for count, colour in page.plot.getcolors(1 << 24) or []}
    most = max(counts.values())
    assert 0.02 < 1 - most / (page.plot.width * page.plot.height) < 0.98
    for selector in (".plot polyline.line", ".plot .target", ".plot .knee"):
        (line,) = page.shapes[selector]
        assert counts.get(rgb(line["stroke"]), 0) > 50, selector


@pytest.mark.parametrize("width", [WIDE, PHONE])
def test_the_dark_page_is_dark_and_the_light_one_light(width, see: Looking):
    assert see("a plan", width, "dark").brightness < 70
    assert see("a plan", width, "light").brightness > 200


def test_a_hostile_name_is_shown_as_it_is_written(see: Looking):
    page = see("hostile names", WIDE, "light")
    assert page.heading == HOSTILE
    assert page.title.startswith(HOSTILE)
    assert page.shapes["script, img, h1 *"] == []


def test_a_promise_that_nothing_keeps_says_so_and_what_was_rejected(see: Looking):
    page = see("no plan", PHONE, "light")
    assert page.verdict.startswith("Nothing keeps the promise")
    assert page.shapes["#rejected tbody tr"]
    assert page.shapes["#goodput, #memory"] == []
