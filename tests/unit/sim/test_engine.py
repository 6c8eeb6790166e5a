"""One simulated engine: the times of a request are those of its steps, and nothing gets lost."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modelfleet.sim.engine import Engine
from modelfleet.sim.requests import End, Outcome, Request
from sim_worlds import PROMPT_TOKEN_S, SPEC, STEP_S, served


def test_one_request_takes_its_prompt_step_and_a_step_a_token() -> None:
    (outcome,), _, _ = served(SPEC, [Request(0.0, 100, 11)])

    assert outcome.ttft_s == pytest.approx(STEP_S + 100 * PROMPT_TOKEN_S)
    assert outcome.tpot_s == pytest.approx(STEP_S)
    assert outcome.ended_s == pytest.approx(outcome.ttft_s + 10 * STEP_S)


def test_a_long_prompt_is_computed_in_chunks_of_the_token_budget() -> None:
    (outcome,), engine, _ = served(SPEC, [Request(0.0, 1200, 1)])

    assert outcome.ttft_s == pytest.approx(3 * STEP_S + 1200 * PROMPT_TOKEN_S)
    assert outcome.tpot_s == 0.0
    assert engine.computed_tokens == 1200


def test_a_prompt_beside_a_running_answer_makes_that_answers_steps_longer() -> None:
    alone, _, _ = served(SPEC, [Request(0.0, 100, 50)])
    beside, _, _ = served(SPEC, [Request(0.0, 100, 50), Request(0.1, 400, 1)])

    first = next(one for one in beside if one.request.output_tokens == 50)
    assert first.ended_s == pytest.approx(alone[0].ended_s + 400 * PROMPT_TOKEN_S)


def test_requests_above_the_sequence_cap_wait_for_one_to_end() -> None:
    spec = replace(SPEC, sequence_cap=1)
    outcomes, _, _ = served(spec, [Request(0.0, 100, 10), Request(0.0, 100, 10)])

    assert outcomes[1].ttft_s == pytest.approx(outcomes[0].ended_s + outcomes[0].ttft_s)


def test_a_prefix_that_is_in_the_cache_is_not_computed_again() -> None:
    requests = [Request(0.0, 400, 2, prefix_tokens=300), Request(1.0, 400, 2, prefix_tokens=300)]
    outcomes, engine, _ = served(SPEC, requests)

    assert engine.computed_tokens == 400 + 100
    assert outcomes[1].ttft_s == pytest.approx(STEP_S + 100 * PROMPT_TOKEN_S)


def test_a_full_cache_preempts_the_latest_which_then_finishes_all_the_same() -> None:
    spec = replace(SPEC, kv_tokens=1000)
    outcomes, engine, most = served(spec, [Request(0.0, 200, 400), Request(0.0, 200, 400)])

    assert engine.preemptions == 1
    assert most <= 1.0
    assert [one.end for one in outcomes] == [End.FINISHED] * 2
    assert outcomes[1].tpot_s > outcomes[0].tpot_s


@pytest.mark.parametrize(
    "change, requests, ends",
    [
        pytest.param({"in_flight": 2}, [(100, 10)] * 3, "ffr", id="the third is over the limit of two in flight"),
        pytest.param({"queued_tokens": 150}, [(100, 10)] * 2, "fr", id="its prompt is over the queue's tokens"),
        pytest.param({"queued_tokens": 50}, [(100, 10)], "f", id="an empty queue takes any prompt"),
        pytest.param({"kv_tokens": 100}, [(100, 10)], "r", id="it is longer than the cache"),
        pytest.param({}, [(100, 10)] * 20, "f" * 20, id="without limits everything queues"),
    ],
)
def test_admission(change: dict[str, int], requests: list[tuple[int, int]], ends: str) -> None:
    outcomes, _, _ = served(replace(SPEC, **change), [Request(0.0, *lengths) for lengths in requests])

    words = {End.FINISHED: "f", End.REFUSED: "r"}
    assert sorted(words[one.end] for one in outcomes) == sorted(ends)


def test_what_a_dead_engine_held_has_failed() -> None:
    outcomes: list[Outcome] = []
    engine = Engine(replace(SPEC, sequence_cap=1), 7, 0.0, outcomes.append)
    engine.arrive(Request(0.0, 100, 100))
    engine.arrive(Request(0.0, 100, 100))
    engine.advance(0.1)
    engine.die(0.1)

    assert [(one.end, one.ended_s, one.replica) for one in outcomes] == [(End.FAILED, 0.1, 7)] * 2
    assert (engine.in_flight, engine.kv_use, engine.queued_tokens) == (0, 0.0, 0)


_REQUESTS = st.lists(
    st.builds(
        Request,
        st.floats(0, 20),
        st.integers(1, 900),
        st.integers(1, 300),
        st.sampled_from([0, 0, 64]),
    ),
    min_size=1,
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(_REQUESTS, st.integers(1200, 4000), st.integers(1, 12))
def test_every_request_ends_once_inside_the_cache_and_all_its_tokens_are_made(
    requests: list[Request], kv_tokens: int, cap: int
) -> None:
    requests.sort(key=lambda one: one.arrival_s)
    spec = replace(SPEC, kv_tokens=kv_tokens, sequence_cap=cap)
    outcomes, engine, most = served(spec, requests)

    assert sorted(map(id, requests)) == sorted(id(one.request) for one in outcomes)
    assert engine.made_tokens == sum(one.output_tokens for one in requests)
    assert most <= 1.0
    assert (engine.kv_use, engine.queued_tokens) == (0.0, 0)
    assert all(one.ttft_s > 0 and one.ended_s >= one.request.arrival_s for one in outcomes)


@settings(max_examples=30, deadline=None)
@given(_REQUESTS)
def test_the_order_of_looking_does_not_change_what_happens(requests: list[Request]) -> None:
    requests.sort(key=lambda one: one.arrival_s)
    outcomes: list[Outcome] = []
    engine = Engine(SPEC, 0, 0.0, outcomes.append)
    for request in requests:
        engine.advance(request.arrival_s)
        engine.arrive(request)
    engine.advance(1e4)

    assert [one.request for one in served(SPEC, requests)[0]] == [one.request for one in outcomes]
