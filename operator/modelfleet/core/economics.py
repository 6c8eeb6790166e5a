"""Self-hosting in money, and against an API that is paid by the token (rule 9). Pure; amounts are exact decimals.

It informs and never refuses: break-even is the sustained load above which the accelerators cost less than the API
would, and a reason that is not the price stands beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from modelfleet.core.layout.answer import Economics
from modelfleet.core.layout.question import ApiPrice, EconomicsWish
from modelfleet.core.layout.wording import count, listed, percent, rate, rounded

_MILLION = 1_000_000
_HOUR_S = 3600


@dataclass(frozen=True, kw_only=True)
class Hosting:
    """What the chosen plan costs and does. `replica_cost_per_hour` None: the class has no price."""

    replica_cost_per_hour: Decimal | None
    currency: str
    replicas: int
    min_replicas: int
    load_rps: float
    knee_rps: float
    """Of one replica."""
    input_tokens: float
    """Means of one request; `shared_prefix_tokens` of the input are a cache hit, here and at the API."""
    output_tokens: float
    shared_prefix_tokens: float = 0.0


def decide_economics(wish: EconomicsWish, hosting: Hosting) -> Economics:
    """Cost of a million tokens, break-even with the API's price, and the reasons that are not the price."""
    per_hour = _cost_per_hour(hosting)
    call = _api_cost(wish.api_price, hosting)
    comparable = wish.api_price is not None and wish.api_price.currency == hosting.currency
    even = _break_even(hosting, call) if comparable and call else None
    declared = _million_tokens(per_hour, hosting, hosting.load_rps)
    api = _per_million(call, hosting) if call is not None else None
    seen = wish.measured_rps
    capacity = hosting.replicas * hosting.knee_rps
    cheaper = None
    if comparable and declared is not None and api is not None:
        cheaper = "SelfHost" if declared <= api else "Api"
    return Economics(
        currency=hosting.currency,
        cost_per_hour=per_hour,
        cost_per_million_tokens=declared,
        cost_per_million_tokens_measured=_million_tokens(per_hour, hosting, seen) if seen else None,
        utilisation=hosting.load_rps / capacity if capacity else None,
        utilisation_measured=seen / capacity if seen is not None and capacity else None,
        api_cost_per_million_tokens=api,
        break_even_rps=even,
        break_even_tokens_per_day=even * 24 * _HOUR_S * _tokens(hosting) if even is not None else None,
        cheaper=cheaper,
        reasons=wish.reasons,
        sentence=_sentence(wish, hosting, declared, api, even),
    )


def _tokens(hosting: Hosting) -> float:
    return hosting.input_tokens + hosting.output_tokens


def _cost_per_hour(hosting: Hosting) -> Decimal | None:
    return None if hosting.replica_cost_per_hour is None else hosting.replica_cost_per_hour * hosting.replicas


def _million_tokens(per_hour: Decimal | None, hosting: Hosting, rps: float) -> Decimal | None:
    if per_hour is None or rps <= 0:
        return None
    tokens_per_hour = Decimal(str(rps * _HOUR_S * _tokens(hosting)))
    return _cents(per_hour * _MILLION / tokens_per_hour)


def _api_cost(price: ApiPrice | None, hosting: Hosting) -> Decimal | None:
    """What the API asks for one mean request."""
    if price is None:
        return None
    cached = Decimal(str(min(hosting.shared_prefix_tokens, hosting.input_tokens)))
    fresh = Decimal(str(hosting.input_tokens)) - cached
    cached_price = price.input_per_million if price.cached_input_per_million is None else price.cached_input_per_million
    out = Decimal(str(hosting.output_tokens)) * price.output_per_million
    return (fresh * price.input_per_million + cached * cached_price + out) / _MILLION


def _per_million(call: Decimal, hosting: Hosting) -> Decimal:
    return _cents(call * _MILLION / Decimal(str(_tokens(hosting))))


def _break_even(hosting: Hosting, call: Decimal) -> float | None:
    """Requests a second at which the fewest replicas cost what the API would; None where even a full replica costs
    more, because then more load only needs more replicas."""
    if hosting.replica_cost_per_hour is None or call <= 0:
        return None
    one = float(hosting.replica_cost_per_hour / _HOUR_S / call)
    return one * hosting.min_replicas if one <= hosting.knee_rps else None


def _cents(value: Decimal) -> Decimal:
    return value.quantize(Decimal("0.0001"))


def _sentence(
    wish: EconomicsWish, hosting: Hosting, declared: Decimal | None, api: Decimal | None, even: float | None
) -> str:
    reasons = f"; stated reasons besides the price: {listed(wish.reasons)}" if wish.reasons else ""
    if declared is None:
        return "the class states no price, so self-hosting has no cost to compare" + reasons
    capacity = hosting.replicas * hosting.knee_rps
    use = f" at {percent(hosting.load_rps / capacity)} of what the promise allows" if capacity else ""
    own = f"a million tokens cost {_money(declared)} {hosting.currency}{use}"
    if api is None or wish.api_price is None:
        return own + reasons
    if wish.api_price.currency != hosting.currency:
        return f"{own}; the API's price is in {wish.api_price.currency}, so there is no break-even" + reasons
    against = f"{own} and {_money(api)} {hosting.currency} at the API"
    least = count(hosting.min_replicas, "replica")
    if even is None:
        tail = "no load breaks even: a replica that is full inside the promise costs more than the API"
    else:
        tail = f"self-hosting is cheaper above {rate(even)} sustained on {least}"
    return f"{against}; {tail}{reasons or '; no reason besides the price is stated'}"


def _money(value: Decimal) -> str:
    return rounded(float(value), 3)
