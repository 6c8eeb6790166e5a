"""Cost of a million tokens, break-even with an API, reasons besides the price: exact amounts, never a refusal."""

from dataclasses import replace
from decimal import Decimal

import pytest

from modelfleet.core.economics import Hosting, decide_economics
from modelfleet.core.layout.question import ApiPrice, EconomicsWish

HOSTING = Hosting(
    replica_cost_per_hour=Decimal("3.60"),
    currency="USD",
    replicas=2,
    min_replicas=1,
    load_rps=4.0,
    knee_rps=5.0,
    input_tokens=750.0,
    output_tokens=250.0,
)
"""1,000 tokens a request, so 4 requests/s are 14.4 million tokens an hour for 7.20."""

API = ApiPrice(input_per_million=Decimal("0.4"), output_per_million=Decimal("0.8"))
"""A request costs 750 × 0.4 + 250 × 0.8 = 500 millionths, a replica 0.001 a second: break-even is 2 requests/s."""


def decide(hosting: Hosting = HOSTING, **wish: object):
    return decide_economics(EconomicsWish(**{"api_price": API} | wish), hosting)  # type: ignore[arg-type]


def test_a_million_tokens_at_the_declared_load():
    got = decide()
    assert got.cost_per_hour == Decimal("7.20")
    assert got.cost_per_million_tokens == Decimal("0.5000")
    assert got.api_cost_per_million_tokens == Decimal("0.5000")
    assert got.utilisation == pytest.approx(0.4)


def test_break_even_is_where_the_fewest_replicas_cost_what_the_api_does():
    got = decide()
    assert got.break_even_rps == pytest.approx(2.0)
    assert got.break_even_tokens_per_day == pytest.approx(2.0 * 86400 * 1000)
    assert "cheaper above 2 requests/s sustained on 1 replica" in got.sentence


def test_more_replicas_at_least_move_break_even_up():
    assert decide(replace(HOSTING, min_replicas=3)).break_even_rps == pytest.approx(6.0)


def test_no_load_breaks_even_where_a_full_replica_costs_more_than_the_api():
    got = decide(replace(HOSTING, knee_rps=1.9))
    assert got.break_even_rps is None
    assert "no load breaks even" in got.sentence


def test_the_measured_load_has_its_own_cost():
    got = decide(measured_rps=1.0)
    assert got.cost_per_million_tokens_measured == Decimal("2.0000")
    assert got.utilisation_measured == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("load", "cheaper"),
    [pytest.param(4.0, "SelfHost", id="equal cost counts as own"), pytest.param(3.9, "Api", id="below break-even")],
)
def test_which_is_cheaper_at_the_declared_load(load, cheaper):
    assert decide(replace(HOSTING, load_rps=load)).cheaper == cheaper


def test_a_cached_prefix_is_charged_at_its_own_price():
    price = replace(API, cached_input_per_million=Decimal("0.1"))
    got = decide(replace(HOSTING, shared_prefix_tokens=500.0), api_price=price)
    assert got.api_cost_per_million_tokens == Decimal("0.3500")  # (250 × 0.4 + 500 × 0.1 + 250 × 0.8) / 1000


def test_a_reason_besides_the_price_stands_beside_it():
    assert "DataControl" in decide(reasons=("DataControl",)).sentence
    assert "no reason besides the price" in decide().sentence


def test_another_currency_is_not_compared():
    got = decide(api_price=replace(API, currency="EUR"))
    assert got.break_even_rps is None
    assert got.cheaper is None
    assert "EUR" in got.sentence


def test_without_a_price_there_is_nothing_to_compare_and_no_refusal():
    got = decide(replace(HOSTING, replica_cost_per_hour=None), reasons=("Latency",))
    assert got.cost_per_million_tokens is None
    assert "states no price" in got.sentence
    assert "Latency" in got.sentence


def test_without_an_api_price_there_is_only_the_own_cost():
    got = decide(api_price=None)
    assert got.api_cost_per_million_tokens is None
    assert got.break_even_rps is None
    assert got.cost_per_million_tokens == Decimal("0.5000")
