"""Block size, admission limits, wording, inventory and the mean of a length regime: small rules, row by row."""

from dataclasses import replace
from decimal import Decimal
from math import exp, log
from statistics import NormalDist

import pytest

from modelfleet.core.layout.admission import decide_admission, version_of
from modelfleet.core.layout.block_size import decide_block
from modelfleet.core.layout.demand import demand_of, mean_tokens
from modelfleet.core.layout.inventory import cost_per_hour, one_currency, room_for
from modelfleet.core.layout.question import Pins, Supply
from modelfleet.core.layout.shape import Layout
from modelfleet.core.layout.wording import exact_seconds, rounded, seconds
from modelfleet.core.perf.workload import Lengths
from questions import LARGE, SMALL, facts, nodes, objective, on, question

BLACKWELL = replace(LARGE, compute_capability=(10, 0))


@pytest.mark.parametrize(
    ("model", "hardware", "context", "prefix", "block"),
    [
        pytest.param("Llama-3.1-8B", LARGE, 500, 0, 16, id="short contexts: the smallest block"),
        pytest.param("Llama-3.1-8B", LARGE, 2000, 0, 32, id="half a block is 1 % of the context at most"),
        pytest.param("Llama-3.1-8B", LARGE, 20000, 0, 128, id="long contexts: the largest block"),
        pytest.param("Llama-3.1-8B", LARGE, 20000, 1040, 16, id="a common prefix of 65 blocks of 16 is shared whole"),
        pytest.param("Llama-3.1-8B", LARGE, 20000, 2048, 128, id="a common prefix that large blocks share whole"),
        pytest.param("DeepSeek-V3", LARGE, 500, 0, 64, id="latent attention fixes it on Hopper"),
        pytest.param("DeepSeek-V3", BLACKWELL, 500, 0, 128, id="latent attention fixes it on Blackwell"),
    ],
)
def test_block_size(model, hardware, context, prefix, block):
    lengths = Lengths(input_tokens=context - 50, output_tokens=100, shared_prefix_tokens=prefix)
    got, reason = decide_block(question(), facts(model), hardware, lengths)
    assert got == block
    assert str(block) in reason.sentence


def test_a_pinned_block_size_stays():
    lengths = Lengths(input_tokens=20000, output_tokens=100)
    got, reason = decide_block(question(pins=Pins(block_tokens=16)), facts("Llama-3.1-8B"), LARGE, lengths)
    assert got == 16
    assert "spec.engine.args.block-size" in reason.sentence


def test_admission_is_the_slack_of_the_first_token_times_the_prefill_rate_and_the_requests_as_they_are():
    got = decide_admission("0.32.0", ttft_s=0.5, prefill_s=0.1, prefill_tokens_per_s=10_000, in_flight=123)
    assert got.flags == {"max-num-queued-tokens": "4000", "max-num-queued-reqs": "123"}


@pytest.mark.parametrize("version", ["0.31.2", "", "main"])
def test_engines_without_admission_flags_get_none(version):
    got = decide_admission(version, ttft_s=0.5, prefill_s=0.1, prefill_tokens_per_s=1e4, in_flight=9)
    assert got.flags == {}
    assert "no limit" in got.reason.sentence


def test_versions_are_their_leading_numbers():
    assert version_of("v0.32.1rc2") == (0, 32, 1)
    assert version_of("0.9") < version_of("0.32.0")


@pytest.mark.parametrize(
    ("candidate", "layout", "replicas"),
    [
        pytest.param(on(LARGE), Layout(8), None, id="unknown nodes: any number"),
        pytest.param(on(LARGE, nodes=()), Layout(1), 0, id="a class with no nodes"),
        pytest.param(on(LARGE, nodes=nodes(2, 8)), Layout(4), 4, id="two halves of each node"),
        pytest.param(on(LARGE, nodes=nodes(3, 8, free=7)), Layout(4), 3, id="a replica does not straddle nodes"),
        pytest.param(on(LARGE, nodes=nodes(3, 8)), Layout(8, 2), 1, id="two stages take two whole nodes"),
        pytest.param(on(LARGE, nodes=nodes(3, 8, free=7)), Layout(8, 2), 0, id="no whole nodes for stages"),
        pytest.param(
            on(LARGE, nodes=nodes(1, 8), supplies=(Supply(name="cloud", autoscaled=True, limit=24),)),
            Layout(8),
            3,
            id="a supply may buy up to its limit",
        ),
        pytest.param(
            on(LARGE, nodes=nodes(1, 8), supplies=(Supply(name="cloud", autoscaled=True),)),
            Layout(8),
            None,
            id="a supply without a limit",
        ),
    ],
)
def test_room(candidate, layout, replicas):
    assert room_for(candidate, layout).replicas == replicas


def test_the_cheapest_supply_is_filled_first():
    supplies = (
        Supply(name="spot", price_per_hour=Decimal(2), limit=8),
        Supply(name="demand", price_per_hour=Decimal(5)),
    )
    assert cost_per_hour(on(LARGE, supplies=supplies), 10) == (Decimal(26), "USD")
    assert cost_per_hour(on(LARGE, supplies=(Supply(name="own"),)), 1) is None


def test_currencies_are_compared_only_where_all_classes_state_the_same():
    euro = on(SMALL, supplies=(Supply(name="eu", price_per_hour=Decimal(1), currency="EUR"),))
    assert one_currency((on(LARGE), on(SMALL))) == "USD"
    assert one_currency((on(LARGE), euro)) is None
    assert one_currency((on(LARGE), on(replace(SMALL, price_per_hour=None)))) is None


def test_the_mean_of_a_log_normal_length_lies_between_its_percentiles():
    assert mean_tokens(1000, 1000) == 1000
    assert 1000 < mean_tokens(1000, 3000) < 3000
    assert mean_tokens(10, 100_000) <= 100_000


@pytest.mark.parametrize(("p50", "p95"), [(1, 1_000_000), (1, 100_000_000), (4000, 60_000), (7900, 8300)])
def test_lengths_past_the_context_limit_are_cut_as_answers_are(p50, p95):
    long = objective(input_p50_tokens=p50, input_p95_tokens=p95)
    lengths = demand_of(question(objectives=(long,), max_context_tokens=8192)).lengths
    assert 0.99 * p50 <= lengths.input_tokens < 8192
    assert (lengths.input_p95_tokens or 0) <= 8191
    assert lengths.input_tokens + lengths.output_tokens <= 8192
    assert lengths.output_tokens >= 1


def test_a_cut_mean_is_that_of_the_shorter_of_a_length_and_the_limit():
    points = [NormalDist().inv_cdf((index + 0.5) / 20_000) for index in range(20_000)]
    sigma = log(1_000_000) / NormalDist().inv_cdf(0.95)
    by_hand = sum(min(exp(sigma * point), 131_071) for point in points) / len(points)
    assert mean_tokens(1, 1_000_000, 131_071) == pytest.approx(by_hand, rel=0.01)


def test_objectives_share_the_mixture_of_their_lengths():
    short = objective(name="chat", load_rps=3.0)
    long = objective(name="report", load_rps=1.0, input_p50_tokens=9000, input_p95_tokens=9000)
    demand = demand_of(question(objectives=(short, long)))
    alone = demand_of(question(objectives=(short,)))
    assert demand.total_rps == 4.0
    assert demand.lengths.input_tokens == pytest.approx(0.75 * alone.lengths.input_tokens + 0.25 * 9000)
    assert 4000 < (demand.lengths.input_p95_tokens or 0) <= 9000


@pytest.mark.parametrize(
    ("value", "text"),
    [(1234.0, "1,200"), (0.01234, "0.012"), (0.0, "0"), (99.6, "100"), (float("inf"), "no limit"), (5.0, "5")],
)
def test_numbers_are_rounded_in_sentences(value, text):
    assert rounded(value) == text


def test_durations_read_as_they_are_written():
    assert exact_seconds(float("inf")) == "inf s"
    assert [exact_seconds(value) for value in (0.5, 2.0, 1.5, 5e-6)] == ["500ms", "2s", "1500ms", "5µs"]
    assert [seconds(value) for value in (0.0123, 1.234, 4.2e-5)] == ["12 ms", "1.23 s", "42 µs"]
