"""The html report, as a user sees it: in a wide window and on a phone, by day and by night."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from PIL import ImageStat
from playwright.sync_api import Browser
from seen import PHONE, WIDE, contrast, overlaps, rgb, seen

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


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, written = tmp_path_factory.mktemp("report"), {}
    for name, made in QUESTIONS.items():
        asked = made()
        written[name] = folder / f"{name.replace(' ', '-')}.html"
        title = HOSTILE if made is hostile else "support-chat"
        written[name].write_text(html(title, asked, answer(asked)))
    return written


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
@pytest.mark.parametrize("name", QUESTIONS)
def test_the_page_is_quiet_and_asks_for_nothing(name, width, scheme, pages, browser: Browser):
    with seen(browser, pages[name], width, scheme) as page:
        assert page.said == []
        assert [url for url in page.asked if not url.startswith("data:")] == [pages[name].as_uri()]


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
@pytest.mark.parametrize("name", QUESTIONS)
def test_every_text_can_be_read(name, width, scheme, pages, browser: Browser):
    with seen(browser, pages[name], width, scheme) as page:
        for summary in page.page.locator("summary").all():
            summary.click()
        texts = page.texts
        assert len(texts) > 30
        assert not page.scrolls_sideways
        assert overlaps(texts) == []
        outside = [one["text"] for one in texts if one["left"] < 0 or one["right"] > width]
        cut = [one["text"] for one in texts if one["right"] > one["cardRight"] or one["bottom"] > one["cardBottom"] + 1]
        assert (outside, cut) == ([], [])
        assert min(one["size"] for one in texts) >= 12
        faint = {one["text"] for one in texts if contrast(one["colour"], one["behind"]) < 4.5}
        assert faint == set()


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_the_curve_the_bars_and_the_marks_are_in_the_window(width, scheme, pages, browser: Browser):
    with seen(browser, pages["a plan"], width, scheme) as page:
        (plot,) = page.shapes(".plot svg")
        assert plot["right"] - plot["left"] > 0.6 * width
        for selector, least in ((".plot polyline.line", 1), (".plot .target", 1), (".plot .knee", 1), (".bar", 3)):
            found = page.shapes(selector)
            assert len(found) >= least, selector
            for shape in found:
                assert 0 <= shape["left"] <= shape["right"] <= width, selector
        (line,) = page.shapes(".plot polyline.line")
        assert line["bottom"] - line["top"] > 0.3 * (plot["bottom"] - plot["top"])


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_the_parts_of_a_bar_fill_it_in_proportion_and_differ(width, scheme, pages, browser: Browser):
    with seen(browser, pages["a plan"], width, scheme) as page:
        (track,) = page.shapes("#memory .bar")
        parts = page.shapes("#memory .bar .part")
        whole = track["right"] - track["left"]
        assert sum(part["right"] - part["left"] for part in parts) == pytest.approx(whole, rel=0.01)
        assert len({part["colour"] for part in parts}) == len(parts) >= 4
        for one, other in pairwise(parts):
            assert other["left"] == pytest.approx(one["right"], abs=0.5)


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_the_plot_has_ink_in_the_colours_of_its_lines(width, scheme, pages, browser: Browser):
    with seen(browser, pages["a plan"], width, scheme) as page:
        image = page.pixels(".plot")
        counts = {colour: count for count, colour in image.getcolors(1 << 24) or []}
        background, most = max(counts.items(), key=lambda one: one[1])
        assert 0.02 < 1 - most / (image.width * image.height) < 0.98
        for selector in (".plot polyline.line", ".plot .target", ".plot .knee"):
            (line,) = page.shapes(selector)
            assert counts.get(rgb(line["stroke"]), 0) > 50, selector
            assert contrast(line["stroke"], f"rgb{background}") >= 2.5, selector


@pytest.mark.parametrize("width", [WIDE, PHONE])
def test_the_dark_page_is_dark_and_the_light_one_light(width, pages, browser: Browser):
    means = {}
    for scheme in ("light", "dark"):
        with seen(browser, pages["a plan"], width, scheme) as page:
            (means[scheme],) = ImageStat.Stat(page.pixels().convert("L")).mean
    assert means["dark"] < 70
    assert means["light"] > 200


def test_a_hostile_name_is_shown_as_it_is_written(pages, browser: Browser):
    with seen(browser, pages["hostile names"], WIDE) as page:
        assert page.page.locator("h1").inner_text() == HOSTILE
        assert page.page.locator("script, img, b > b, h1 *").count() == 0
        assert page.page.title().startswith(HOSTILE)


def test_a_promise_that_nothing_keeps_says_so_and_what_would_work(pages, browser: Browser):
    with seen(browser, pages["no plan"], PHONE) as page:
        assert page.page.locator(".verdict").inner_text().startswith("Nothing keeps the promise")
        assert page.page.locator("#rejected tbody tr").count() > 0
        assert page.page.locator("#goodput, #memory").count() == 0
