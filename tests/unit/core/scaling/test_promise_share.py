"""What a window says of a promise, row by row, and how sure that is."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelfleet.api.reasons import Reason
from modelfleet.core.promise import digest
from modelfleet.core.promised import decide_objectives_met, goodput_block, percent
from modelfleet.core.scaling.goodput import Goodput, mean_in_flight, measure
from modelfleet.core.scaling.interval import wilson, with_silent
from modelfleet.core.scaling.revisions import promise_of_revisions
from sampled import Sampled, parsed, worker
from worker_pages import Numbers, good

SHORT, LONG = [80] * 95 + [300] * 5, [600] * 100


def objective(name: str = "interactive", **more: Any) -> dict[str, Any]:
    lengths = {"inputTokens": {"p50": 100, "p95": 400}, "outputTokens": {"p50": 50, "p95": 200}}
    usual = {"name": name, "ttft": "500ms", "tpot": "50ms", "share": "90%", "lengths": lengths}
    return {**usual, "load": {"requestsPerSecond": 100}, **more}


def after(numbers: Any, seconds: float = 300, **more: Any) -> Goodput:
    """What is measured once one worker has counted `numbers` over `seconds`."""
    sampled = Sampled(parsed(objectives=[objective(**more)]) if "objectives" not in more else parsed(**more))
    sampled.follow(worker())
    before = dict.fromkeys(numbers, Numbers()) if isinstance(numbers, dict) else Numbers()
    sampled.over(seconds, [before, numbers])
    return measure(sampled.deployment, sampled.samples, ["uid-0"])


def said(found: Goodput, inside: str = "", wanted: int = 1) -> tuple[str, Reason]:
    verdict = decide_objectives_met(found, inside, wanted=wanted)
    return str(verdict.status), verdict.reason


@pytest.mark.parametrize(
    ("numbers", "more", "status", "reason"),
    [
        pytest.param(good(990, 10), {}, "True", Reason.SHARE_KEPT, id="the whole interval is above the target"),
        pytest.param(good(800, 200), {}, "False", Reason.SHARE_MISSED, id="the whole interval is below it"),
        pytest.param(good(900, 100), {}, "Unknown", Reason.TOO_FEW_REQUESTS, id="the target is inside the interval"),
        pytest.param(good(9), {}, "Unknown", Reason.TOO_FEW_REQUESTS, id="nine good ones of nine prove nothing"),
        pytest.param(Numbers(), {}, "Unknown", Reason.NO_TRAFFIC, id="zero is not no data"),
        pytest.param(
            Numbers(arrivals=3, in_flight=3), {}, "Unknown", Reason.TOO_FEW_REQUESTS, id="what runs is traffic"
        ),
        pytest.param(
            Numbers(arrivals=1000, ended={"met": 1000, "aborted": 500, "invalid": 300}),
            {},
            "True",
            Reason.SHARE_KEPT,
            id="what clients gave up or wrote wrongly is in neither part",
        ),
        pytest.param(
            Numbers(arrivals=1000, ended={"met": 700, "refused": 300}),
            {},
            "False",
            Reason.SHARE_MISSED,
            id="refused requests are not good",
        ),
        pytest.param(
            Numbers(arrivals=1300, ended={"met": 1000}, longer={"late_ttft": 300}),
            {},
            "True",
            Reason.SHARE_KEPT,
            id="prompts longer than the promise are apart",
        ),
        pytest.param(good(800, 200), {"seconds": 40}, "Unknown", Reason.TOO_FEW_REQUESTS, id="a burst is no window"),
        pytest.param(
            good(800, 200),
            {"load": {"requestsPerSecond": 2}},
            "Unknown",
            Reason.OUTSIDE_REGIME,
            id="a promise is not broken by a load that it is not for",
        ),
        pytest.param(
            good(990, 10),
            {"load": {"requestsPerSecond": 2}},
            "True",
            Reason.OUTSIDE_REGIME,
            id="it may be kept there",
        ),
        pytest.param(
            good(800, 200, prompts=LONG), {}, "Unknown", Reason.OUTSIDE_REGIME, id="prompts longer than declared"
        ),
        pytest.param(good(800, 200, prompts=SHORT), {}, "False", Reason.SHARE_MISSED, id="prompts as declared"),
        pytest.param(
            good(800, 200, answers=[80] * 100), {}, "Unknown", Reason.OUTSIDE_REGIME, id="answers longer than declared"
        ),
        pytest.param(
            good(3, 1, in_flight=40),
            {"load": {"concurrency": 8}},
            "Unknown",
            Reason.OUTSIDE_REGIME,
            id="more in flight than declared",
        ),
    ],
)
def test_a_window_and_what_follows(numbers: Any, more: dict[str, Any], status: str, reason: Reason):
    assert said(after(numbers, **more)) == (status, reason)


def test_of_several_objectives_the_one_furthest_from_its_promise_is_named():
    both = {"objectives": [objective("chat"), objective("batch", share="50%")]}
    found = after({"chat": good(700, 300), "batch": good(300, 700)}, **both)
    verdict = decide_objectives_met(found, "", wanted=1)
    assert (verdict.reason, verdict.message.split(":")[0]) == (Reason.SHARE_MISSED, "objective chat")
    assert "most of the others were late to the first token" in verdict.message


def test_an_objective_without_requests_does_not_hide_one_that_has_them():
    both = {"objectives": [objective("chat"), objective("batch")]}
    assert said(after({"chat": good(990, 10), "batch": Numbers()}, **both)) == ("True", Reason.SHARE_KEPT)


def test_no_worker_that_says_anything_is_no_data_and_says_why():
    sampled = Sampled().follow(worker(0), worker(1))
    sampled.over(60, [good(0), good(500)], worker(0))
    sampled.now_s += 31
    sampled.book.fail("uid-0", "its page does not answer within 4 s")
    found = measure(sampled.deployment, sampled.samples, ["uid-0", "uid-1"])
    verdict = decide_objectives_met(found, "", wanted=2)
    assert (verdict.reason, verdict.message) == (
        Reason.NO_DATA,
        "of the workers none of the 2 that serve says anything (chat-1a2b3c4d-0: its page does not answer within 4 s)",
    )
    assert said(measure(sampled.deployment, sampled.samples, []), wanted=0) == ("Unknown", Reason.NO_TRAFFIC)
    assert said(measure(sampled.deployment, sampled.samples, []), wanted=2) == ("Unknown", Reason.NO_DATA)


def test_a_silent_worker_may_have_done_the_worst_so_a_kept_promise_is_not_certain():
    sampled = Sampled(parsed(objectives=[objective()])).follow(worker(0), worker(1))
    sampled.over(120, [good(0), good(990, 10)], worker(0))
    assert said(measure(sampled.deployment, sampled.samples, ["uid-0"])) == ("True", Reason.SHARE_KEPT)
    assert said(measure(sampled.deployment, sampled.samples, ["uid-0", "uid-1"])) == (
        "Unknown",
        Reason.TOO_FEW_REQUESTS,
    )


def test_outside_the_regime_both_shares_are_shown():
    found = after(good(700, 300), load={"requestsPerSecond": 2})
    block = goodput_block(found, "99.1%")
    assert (block["share"], block["outsideRegimeShare"], block["objectives"][0]["outsideRegime"]) == (
        "99.1%",
        "70%",
        "load",
    )
    message = decide_objectives_met(found, "99.1%", wanted=1).message
    assert message == (
        "objective interactive: 3.3 requests arrive a second, and the promise is for 2; 70% of the requests kept the"
        " promise, 99.1% in the last window inside it"
    )


def test_the_block_says_what_was_measured_and_rounds_it():
    block = goodput_block(after(good(2987, 13)), "")
    assert block == {
        "window": "5m",
        "share": "99.6%",
        "requestsPerSecond": "10",
        "objectives": [
            {
                "name": "interactive",
                "target": "90%",
                "share": "99.6%",
                "requests": 3000,
                "requestsPerSecond": "10",
            }
        ],
    }


def test_without_a_request_the_share_is_absent_and_the_rate_is_zero():
    block = goodput_block(after(Numbers()), "")
    assert ("share" in block, block["requestsPerSecond"], block["objectives"][0]["requests"]) == (False, "0", 0)


@given(load=st.floats(-0.005, 0.005))
def test_half_a_percent_of_noise_moves_no_figure(load: float):
    steady, noisy = (goodput_block(after(good(round(5020 * part), 0)), "") for part in (1.0, 1 + load))
    assert noisy == steady


@pytest.mark.parametrize(
    ("share", "target", "text"),
    [
        *((0.9961, 0.9, "99.6%"), (0.9961, 0.995, "99.61%"), (1.0, 0.999, "100%"), (0.5, 0.9, "50%"), (0.0, 0.9, "0%")),
        pytest.param(0.99999, 0.99999, "99.999%", id="a target of three digits is not told as all"),
        pytest.param(0.99998, 0.99999, "99.998%", id="nor is what is below it"),
        pytest.param(0.98996, 0.99, "98.9%", id="what is below the target is not rounded up to it"),
        pytest.param(0.99004, 0.99, "99%", id="what is above may be rounded down to it"),
        pytest.param(0.89999, 0.9, "89.9%", id="nor up to a whole one"),
    ],
)
def test_a_share_has_as_many_digits_as_its_target_asks_for(share: float, target: float, text: str):
    assert percent(share, target) == text


def test_the_interval_is_that_of_the_textbook():
    # Newcombe 1998, table I, method 3 (Wilson score without continuity correction).
    for good_, of, low, high in ((81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611)):
        found = wilson(good_, of)
        assert (round(found.low, 4), round(found.high, 4)) == (low, high)


@given(good_=st.integers(0, 500), bad=st.integers(0, 500), fresh=st.integers(1, 50), silent=st.integers(0, 50))
def test_an_interval_holds_its_share_and_silent_workers_only_widen_it(good_: int, bad: int, fresh: int, silent: int):
    known = wilson(good_, good_ + bad)
    wide = with_silent(known, fresh, silent)
    assert 0 <= wide.low <= known.low + 1e-12
    assert known.high - 1e-12 <= wide.high <= 1
    if good_ + bad:
        assert known.low - 1e-12 <= good_ / (good_ + bad) <= known.high + 1e-12


def test_revisions_are_measured_apart_by_the_objective_that_tells_them_apart():
    both = parsed(objectives=[objective("batch", share="10%"), objective("chat")])
    sampled = Sampled(both).follow(worker(0, "aaaaaaaa"), worker(1, "bbbbbbbb"), worker(2, "cccccccc"))
    for index, late in ((0, 0), (1, 500), (2, None)):
        chat = good(0) if late is None else good(900, late)
        sampled.over(60, [{}, {"chat": chat, "batch": good(50)}], sampled.workers[f"uid-{index}"])
    sampled.follow(worker(1, "bbbbbbbb"), worker(2, "cccccccc"))
    found = promise_of_revisions(both, sampled.samples)
    assert (found.target, sorted(found.measured)) == (0.9, ["aaaaaaaa", "bbbbbbbb"]), "those that are gone count too"
    assert found.measured["bbbbbbbb"].high < 0.9 <= found.measured["aaaaaaaa"].low


def test_the_mean_in_flight_weighs_readings_by_the_time_they_stand_for():
    sampled = Sampled().follow(worker())
    for step in range(73):  # 10 in flight for five minutes, then 70 for one
        sampled.now_s += 5
        sampled.read(Numbers(arrivals=step, in_flight=10 if step <= 60 else 70))
    assert mean_in_flight(sampled.samples, digest(sampled.deployment), "interactive") == pytest.approx(22)
