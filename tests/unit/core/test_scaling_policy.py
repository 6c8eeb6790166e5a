"""The number of replicas: bounds, reasons, and that load, clock and memory alone decide."""

from dataclasses import replace
from math import cos, log, pi

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelfleet.core.scaling.policy import Bound, Decision, Memory, Sample, Terms, decide
from scaling_ticks import TERMS as UNBOUNDED

TERMS = replace(UNBOUNDED, max_replicas=20)
TICK_S = 5.0


def sample(now_s: float, rate_rps: float, serving: int, *, good: float = 1.0, waiting: int = 0) -> Sample:
    """A tick of mean requests at a rate, of which a share was good."""
    count = round(rate_rps * TICK_S)
    return Sample(
        now_s=now_s,
        arrivals=count,
        input_tokens=count * 1000,
        ended=count,
        good=round(count * good),
        finished=count,
        output_tokens=count * 100,
        serving=serving,
        pending_s=(),
        waiting=waiting,
    )


def film(
    rates: list[float], *, terms: Terms = TERMS, good: float = 1.0, first: int | None = None
) -> tuple[list[Decision], Memory]:
    """The decisions over ticks at these rates, with replicas that serve at once and are late above their knee."""
    memory, serving, decisions = Memory(), first or terms.min_replicas, []
    for number, rate in enumerate(rates):
        share = good if rate <= serving * terms.knee_rps else 0.5 * good
        decision, memory = decide(sample((number + 1) * TICK_S, rate, serving, good=share), memory, terms)
        serving = decision.replicas
        decisions.append(decision)
    return decisions, memory


def test_a_steady_load_gets_what_its_knee_asks_for_within_the_margin() -> None:
    decisions, _ = film([10.0] * 800)

    assert {decision.replicas for decision in decisions[200:]} <= {4, 5, 6}
    assert {decision.bound for decision in decisions[200:]} <= {Bound.LOAD, Bound.HELD}


def test_noise_of_five_percent_moves_the_number_by_one_at_most_and_not_within_a_cold_start() -> None:
    rates = [10.0 * (1.05 if number % 7 < 3 else 0.95) for number in range(1600)]
    decisions, _ = film(rates)
    numbers = [decision.replicas for decision in decisions]

    ticks = round(TERMS.cold_start_s / TICK_S)
    ups = [at for at in range(401, 1600) if numbers[at] > numbers[at - 1]]
    assert all(min(numbers[at : at + ticks]) == numbers[at] for at in ups)
    assert max(numbers[400:]) - min(numbers[400:]) <= 1


def test_a_step_up_is_answered_within_a_minute() -> None:
    decisions, _ = film([4.0] * 200 + [16.0] * 12)

    assert decisions[-1].replicas >= 8


def test_a_minute_teaches_the_margin_by_the_requests_that_came_in_it_and_a_surge_no_more_than_four_times() -> None:
    def learned(before_rps: float) -> float:
        """How much lower a minute of 18 requests a second makes the margin, all of them good."""
        memory = Memory()
        for number in range(732):
            if number == 720:
                memory = replace(memory, log_margin=0.1, log_knee=0.0)
            rate = before_rps if number < 720 else 18.0
            _, memory = decide(sample((number + 1) * TICK_S, rate, 10), memory, TERMS)
        return 0.1 - memory.log_margin

    steady, twice, rare = learned(18.0), learned(9.0), learned(0.4)

    assert 0 < steady < twice < rare < 4 * steady


def test_replicas_leave_only_when_none_was_needed_for_a_cold_start() -> None:
    decisions, _ = film([16.0] * 200 + [2.0] * 80, first=9)

    high = decisions[199].replicas
    assert decisions[199 + 35].replicas >= 16.0 / 2.0 * 0.85
    assert decisions[199 + 35].bound is Bound.HELD
    assert "were needed within the last 300 s" in decisions[199 + 35].reason
    assert decisions[-1].replicas < high


def delayed(rates: list[float], terms: Terms) -> tuple[list[Decision], list[int]]:
    """The decisions over ticks at these rates, and the replicas that serve: those wanted all through a cold start."""
    memory, serving, decisions = Memory(), [2], []
    for number, rate in enumerate(rates):
        share = 1.0 if rate <= serving[-1] * terms.knee_rps else 0.5
        decision, memory = decide(sample((number + 1) * TICK_S, rate, serving[-1], good=share), memory, terms)
        decisions.append(decision)
        lately = [one.replicas for one in decisions[-round(terms.cold_start_s / TICK_S) :]]
        serving.append(min(lately) if len(decisions) * TICK_S > terms.cold_start_s else 2)
    return decisions, serving


BURST = [16.0] * 12
"""A minute."""


def test_bursts_that_replicas_cannot_follow_find_them_held_for_as_long_as_they_come_again_within_the_hour() -> None:
    rates, starts = [3.0] * 300, []
    for calm in (310, 180, 420, 250, 390, 200):  # no season foretells them
        starts.append(len(rates))
        rates += BURST + [3.0] * calm
    _, serving = delayed(rates, TERMS)

    assert serving[starts[0]] == 2
    assert all(serving[start] >= 7 for start in starts[1:])


def test_what_an_hour_needed_is_given_back_when_it_did_not_come_again() -> None:
    _, serving = delayed([3.0] * 300 + BURST + [3.0] * 800, TERMS)

    assert serving[312 + 700] >= 7
    assert serving[-1] == 2


def test_a_load_that_replicas_can_follow_is_not_held_for_an_hour() -> None:
    slow = [3.0 + 0.02 * number for number in range(650)]
    decisions, _ = delayed([3.0] * 100 + slow + [3.0] * 200, TERMS)

    assert decisions[100 + 650].replicas >= 8
    assert decisions[-1].replicas == 2
    assert not any("3600 s" in decision.reason for decision in decisions)


def test_a_jump_is_no_slope_and_a_slope_that_lasts_is_one() -> None:
    jumped, _ = film([4.0] * 200 + [16.0] * 60)
    climbing = [4.0 + 0.1 * number for number in range(120)]
    grown, _ = film([4.0] * 200 + climbing)

    assert max(decision.peak_rps for decision in jumped) <= 16.0
    assert grown[-1].peak_rps >= climbing[-1] + 1.0


def test_a_load_that_comes_to_its_height_is_not_taken_to_go_on_far_beyond() -> None:
    wave = [25.0 - 20.0 * cos(2 * pi * number * TICK_S / 600) for number in range(round(600 / TICK_S))]
    decisions, _ = film(wave)

    assert max(decision.peak_rps for decision in decisions) <= 1.4 * max(wave)


def test_what_a_forecast_asked_for_and_never_came_is_given_back_within_two_minutes() -> None:
    decisions, _ = film([4.0] * 100 + [4.0 + 0.3 * number for number in range(60)] + [22.0] * 60)

    most = max(decision.replicas for decision in decisions)
    assert most >= 15
    assert decisions[-1].replicas <= 13


@pytest.mark.parametrize(
    "good, idle_good, low, high",
    [
        pytest.param(1.0, 1.0, 0.05, 0.35, id="none is late near the knee: it is higher than told"),
        pytest.param(0.9, 1.0, -0.35, -0.05, id="many are late below it: it is lower"),
        pytest.param(0.985, 0.985, 0.0, 0.35, id="as many are late at no load: that is not the knee"),
    ],
)
def test_the_knee_is_corrected_by_what_is_late_beyond_what_is_late_anyway(
    good: float, idle_good: float, low: float, high: float
) -> None:
    memory, now_s = Memory(), 0.0
    for rate, share, ticks in ((12.0, idle_good, 100), (36.0, good, 100)):
        for _ in range(ticks):
            now_s += TICK_S
            _, memory = decide(sample(now_s, rate, 20, good=share), memory, TERMS)

    assert low <= memory.log_knee <= high


@pytest.mark.parametrize(
    "truth",
    [
        pytest.param(1.2, id="a knee a fifth above the told one"),
        pytest.param(0.8, id="a knee a fifth below the told one"),
    ],
)
def test_a_knee_that_is_told_wrong_is_known_within_a_quarter_of_an_hour_near_it(truth: float) -> None:
    memory, serving, late = Memory(), 10, 0.0
    for number in range(180):
        now = sample((number + 1) * TICK_S, 0.97 * truth * TERMS.knee_rps * serving, serving)
        late += now.ended * 0.01 * 0.97**14
        _, memory = decide(replace(now, good=now.ended - int(late)), memory, TERMS)
        late -= int(late)

    assert memory.log_knee == pytest.approx(log(truth), abs=0.08)


def test_what_is_late_when_a_burst_begins_teaches_nothing_of_the_knee() -> None:
    decisions, before = film([4.0] * 200, terms=replace(TERMS, max_replicas=3, min_replicas=3))
    _, after = film([4.0] * 200 + [24.0] * 12, terms=replace(TERMS, max_replicas=3, min_replicas=3))

    assert decisions[-1].replicas == 3
    assert after.log_knee == pytest.approx(before.log_knee, abs=0.01)


def test_a_few_late_at_half_the_knee_teach_next_to_nothing_of_it() -> None:
    memory = Memory()
    for number in range(180):
        _, memory = decide(sample((number + 1) * TICK_S, 10.0, 10, good=0.98), memory, TERMS)

    assert abs(memory.log_knee) < 0.1


def test_longer_prompts_are_more_load_than_short_ones() -> None:
    long = replace(sample(TICK_S * 3, 10.0, 5), input_tokens=50 * 4000)
    _, memory = film([10.0] * 100)
    short = replace(long, input_tokens=50 * 1000)
    now_s = 101 * TICK_S
    grown = [decide(replace(one, now_s=now_s + 15), memory, TERMS)[0].load_rps for one in (short, long)]

    assert grown[1] > grown[0]


def test_lateness_of_busy_replicas_raises_the_margin_and_lateness_of_idle_ones_does_not() -> None:
    _, late = film([10.0] * 200, good=0.9, terms=replace(TERMS, max_replicas=5))
    _, fine = film([10.0] * 200, terms=replace(TERMS, max_replicas=5))
    idle_terms = replace(TERMS, min_replicas=20)
    _, idle = film([10.0] * 200, good=0.9, terms=idle_terms)
    _, idle_fine = film([10.0] * 200, terms=idle_terms)

    assert late.log_margin > fine.log_margin
    assert idle.log_margin <= max(Memory().log_margin, idle_fine.log_margin)


@pytest.mark.parametrize(
    "rate, terms, bound, words",
    [
        pytest.param(100.0, TERMS, Bound.MAXIMUM, "maxReplicas allows 20", id="the most"),
        pytest.param(1.0, replace(TERMS, min_replicas=4), Bound.MINIMUM, "minReplicas asks for 4", id="the least"),
        pytest.param(10.0, TERMS, Bound.LOAD, "at 2 a replica need", id="the load"),
    ],
)
def test_the_bound_that_won_is_in_the_reason(rate: float, terms: Terms, bound: Bound, words: str) -> None:
    decisions, _ = film([rate / 2] * 60 + [rate] * 8, terms=terms)

    assert decisions[-1].bound is bound
    assert words in decisions[-1].reason


def test_a_day_without_any_load_holds_the_minimum() -> None:
    decisions, _ = film([0.0] * 2000)

    assert {decision.replicas for decision in decisions} == {1}


_TICKS = st.lists(
    st.tuples(st.floats(0, 60), st.floats(0, 1), st.integers(0, 500), st.floats(0.5, 120)), min_size=1, max_size=60
)


@settings(max_examples=80, deadline=None)
@given(_TICKS, st.integers(1, 6), st.integers(6, 30), st.sampled_from([60.0, 180.0, 600.0]))
def test_bounds_hold_there_is_a_reason_and_the_same_world_gives_the_same_answer(
    ticks: list[tuple[float, float, int, float]], low: int, high: int, cold_start_s: float
) -> None:
    terms = replace(TERMS, min_replicas=low, max_replicas=high, cold_start_s=cold_start_s)
    runs = []
    for _ in range(2):
        memory, now_s, serving, run = Memory(), 0.0, low, []
        for rate, good, waiting, gap_s in ticks:
            now_s += gap_s
            decision, memory = decide(sample(now_s, rate, serving, good=good, waiting=waiting), memory, terms)
            serving = decision.replicas
            run.append(decision)
        runs.append((run, memory))

    assert runs[0] == runs[1]
    assert all(low <= decision.replicas <= high and decision.reason for decision in runs[0][0])


@settings(max_examples=80, deadline=None)
@given(st.lists(st.floats(0, 30), min_size=2, max_size=120), st.integers(0, 200), st.integers(0, 200))
def test_more_load_never_asks_for_fewer_replicas_on_the_same_memory(rates: list[float], one: int, other: int) -> None:
    decisions, memory = film(rates)
    now_s = (len(rates) + 3) * TICK_S
    asked = []
    for count in sorted((one, other)):
        now = replace(sample(now_s, 0.0, decisions[-1].replicas), arrivals=count, input_tokens=1000 * count)
        asked.append(decide(now, memory, TERMS)[0].replicas)

    assert asked[0] <= asked[1]
