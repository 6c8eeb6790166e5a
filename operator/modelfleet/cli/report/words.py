"""Figures of a plan in the words of the page and of the terminal alike. Pure."""

from decimal import Decimal

from modelfleet.core.layout.answer import Answer, ClassPlan, Offer, Pool, Problem
from modelfleet.core.layout.wording import count, rounded, seconds, share

CURRENCY_PER_HOUR = "{} an hour"


def money(amount: Decimal | float, currency: str) -> str:
    """An amount with its currency: 12.40 USD."""
    value = float(amount)
    digits = 2 if abs(value) >= 0.1 or value == 0 else 4
    return f"{value:,.{digits}f} {currency}"


def cost(plan: ClassPlan) -> str:
    """What a plan costs an hour, or that its class states no price."""
    if plan.cost_per_hour is None:
        return "no price stated"
    return CURRENCY_PER_HOUR.format(money(plan.cost_per_hour, plan.currency))


def layouts(plan: ClassPlan) -> str:
    """The layout of each pool."""
    if len(plan.pools) == 1:
        return str(plan.pool.layout)
    return " + ".join(f"{pool.role.value.lower()} {pool.layout}" for pool in plan.pools)


def pool_line(pool: Pool) -> str:
    """A pool in one line: 3 replicas of tp4, 12 accelerators."""
    replicas = count(pool.replicas, "replica")
    return f"{replicas} of {pool.layout}, {count(pool.accelerators, 'accelerator')}"


def verdict(answer: Answer) -> str:
    """The answer in one or two sentences."""
    chosen = answer.chosen
    if chosen is not None:
        pools = " and ".join(pool_line(pool) for pool in chosen.pools)
        later = "" if chosen.rolled_out else " This version cannot roll it out yet."
        return f"{chosen.class_name}: {pools}, {cost(chosen)}.{later}"
    if answer.infeasible is not None:
        return f"Nothing keeps the promise: {answer.infeasible.sentence}."
    fatal = next((problem for problem in answer.problems if problem.fatal), None)
    return told(fatal) if fatal else "There is no plan."


def told(problem: Problem) -> str:
    """A problem with its field, which many a sentence begins with."""
    return problem.sentence if problem.sentence.startswith(problem.field) else f"{problem.field}: {problem.sentence}"


def kept(value_s: float, limit_s: float, at: float) -> str:
    """A predicted time at the wanted share beside its limit."""
    return f"for {share(at)}; the promise is {seconds(limit_s)}" if limit_s else f"for {share(at)}"


def give_or_take(uncertainty: float) -> str:
    """The uncertainty of the times: ± 20 %."""
    return f"± {rounded(uncertainty * 100)} %"


def written(offer: Offer) -> str:
    """What to write where for an offer."""
    return f"{offer.field}: {offer.value}" if offer.field else offer.value
