"""What status tells of a plan, its cost and its model. Pure; a report that nothing is decided from.

Prices and what they are compared with are today's, so that a price that changes shows without a new plan.
"""

from collections.abc import Iterable, Iterator
from decimal import Decimal

from modelfleet.api import status
from modelfleet.core.asking import cheapest, economics_wish
from modelfleet.core.economics import Hosting, decide_economics
from modelfleet.core.intent import Intent
from modelfleet.core.layout.wording import gib, rounded
from modelfleet.core.mix import Mix
from modelfleet.core.model.facts import ModelFacts
from modelfleet.core.plan import Plan, Planned, Why

_REJECTED = 32  # what status.plan.rejected holds


def plan_report(revision: str, plan: Plan, replicas: int, later: Iterable[tuple[Plan, int]] = ()) -> status.Plan:
    """The block `status.plan`. `revision` is empty for a plan that is not pinned; `later` are its pools on other
    classes, each with its replicas."""
    planned = plan.planned
    layouts = planned.rejected if planned else ()
    unused = (each for each in plan.unused if each.class_name not in {why.class_name for why in layouts})
    rejected = (*unused, *layouts)[:_REJECTED]
    return status.Plan(
        revision=revision,
        pools=(_pool(plan, replicas), *(_pool(each, count) for each, count in later)),
        reasons=(tuple(_reason(why) for why in planned.reasons) or None) if planned else None,
        rejected=tuple(_rejected(why) for why in rejected) or None,
    )


def _pool(plan: Plan, replicas: int) -> status.Pool:
    planned = plan.planned
    return status.Pool(
        role=status.Role(planned.role) if planned else status.Role.SERVE,
        class_=plan.class_name,
        layout=plan.layout,
        accelerators_per_replica=plan.accelerators,
        replicas=replicas,
        quantization=status.PoolQuantization(weights=planned.weights, kv_cache=planned.kv_cache) if planned else None,
        engine=_engine(planned) if planned else None,
        predicted=_predicted(planned) if planned else None,
    )


def told(
    intent: Intent, plan: status.Plan | None, mix: Mix | None = None
) -> Iterator[tuple[str, status.Cost | status.ModelReport]]:
    """The blocks `cost` and `model`, where there is something to tell. `mix` is what stands of which class."""
    cost = _cost(intent, mix)
    if plan is not None and cost is not None:
        yield "cost", cost
    if intent.facts is not None and intent.deployment is not None:
        yield "model", _model(intent.facts, intent.deployment.spec.model.source.canonical)


def _engine(planned: Planned) -> status.PoolEngine:
    return status.PoolEngine(
        token_budget=planned.token_budget, sequence_cap=planned.sequence_cap, block_tokens=planned.block_tokens
    )


def _predicted(planned: Planned) -> status.Predicted:
    of = planned.predicted
    return status.Predicted(
        ttft=of.ttft,
        tpot=of.tpot,
        concurrency=of.concurrency,
        kv_cache_tokens=of.kv_cache_tokens,
        knee_requests_per_second=of.knee_requests_per_second,
        knee_bound=of.knee_bound,
        uncertainty=of.uncertainty,
        source=of.source,
    )


def _reason(why: Why) -> status.PlanReason:
    return status.PlanReason(check=why.check, sentence=why.sentence)


def _rejected(why: Why) -> status.Rejected:
    return status.Rejected(class_=why.class_name, layout=why.layout or None, check=why.check, sentence=why.sentence)


def _cost(intent: Intent, mix: Mix | None) -> status.Cost | None:
    wish = intent.wish
    planned = wish.plan.planned if wish else None
    if wish is None or planned is None or wish.plan.class_name not in intent.classes:
        return None
    price = _price(intent, Mix(first=wish.plan) if mix is None else mix, wish.replicas.replicas)
    found = decide_economics(
        economics_wish(wish.deployment.spec),
        Hosting(
            replica_cost_per_hour=price[0] if price else None,
            currency=price[1] if price else "USD",
            replicas=wish.replicas.replicas,
            min_replicas=wish.deployment.spec.scaling.min_replicas,
            load_rps=planned.hosted.load_rps,
            knee_rps=mix.knee_rps if mix is not None and mix.on_later else planned.hosted.knee_rps,
            input_tokens=planned.hosted.input_tokens,
            output_tokens=planned.hosted.output_tokens,
            shared_prefix_tokens=planned.hosted.shared_prefix_tokens,
        ),
    )
    even = found.break_even_rps
    return status.Cost(
        currency=found.currency,
        per_hour=_amount(found.cost_per_hour),
        per_million_tokens=_amount(found.cost_per_million_tokens),
        api_per_million_tokens=_amount(found.api_cost_per_million_tokens),
        break_even_requests_per_second=rounded(even) if even is not None else None,
        cheaper=found.cheaper,
        reasons=found.reasons or None,
        sentence=found.sentence[:1024],
    )


def _price(intent: Intent, mix: Mix, replicas: int) -> tuple[Decimal, str] | None:
    """What a replica costs an hour, the mean of those on all classes; None where not all have a price in one
    currency."""
    on_later = min(mix.on_later, replicas)
    counts = [(mix.first, max(1, replicas) - on_later), *mix.later] if on_later else [(mix.first, 1)]
    amounts, currencies = Decimal(0), set[str]()
    for plan, count in counts:
        price = cheapest(intent.classes[plan.class_name]) if plan.class_name in intent.classes else None
        if price is None:
            return None
        amounts += price[0] * plan.accelerators * count
        currencies.add(price[1])
    total = sum(count for _, count in counts)
    return (amounts / total, currencies.pop()) if len(currencies) == 1 and total else None


def _amount(amount: Decimal | None) -> str | None:
    """Four significant digits, no exponent, no needless zeros."""
    if amount is None:
        return None
    return f"{Decimal(f'{amount:.3e}').normalize():f}"


def _model(facts: ModelFacts, source: str) -> status.ModelReport:
    return status.ModelReport(
        source=source,
        facts=facts.source,
        architecture=facts.architecture,
        layers=facts.layers,
        parameters=_parameters(facts.parameters),
        weights=facts.native.value,
        max_context_tokens=facts.max_context_tokens,
        checkpoint=gib(facts.checkpoint_bytes) if facts.checkpoint_bytes else None,
    )


def _parameters(count: int) -> str:
    """As people say it: 70.6B, 494M."""
    return f"{rounded(count / 1e9, 3)}B" if count >= 1e9 else f"{rounded(count / 1e6, 3)}M"
