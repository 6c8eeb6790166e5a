"""What the page shows, ready to print: no figure is worked out in the template. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from modelfleet.cli.report.bars import Bars, memory_bars, step_bars
from modelfleet.cli.report.curve import Curve, curve, subject_of
from modelfleet.cli.report.words import cost, give_or_take, kept, layouts, money, verdict, written
from modelfleet.core.layout.answer import Answer, ClassPlan, Economics, Pool, Predicted, Problem, Reason, Role
from modelfleet.core.layout.demand import Demand, Wanted, demand_of
from modelfleet.core.layout.question import Question
from modelfleet.core.layout.wording import count, percent, rounded, seconds
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.profile import Profile

SHOWN_REJECTED = 12


@dataclass(frozen=True)
class Tile:
    """A figure to see first."""

    name: str
    value: str
    note: str
    mood: str = ""


@dataclass(frozen=True)
class Fact:
    """A line of a list."""

    name: str
    value: str


@dataclass(frozen=True)
class ClassRow:
    """What one class would take."""

    name: str
    layout: str
    weights: str
    replicas: str
    accelerators: str
    cost: str


@dataclass(frozen=True)
class OfferRow:
    """Something near that would work."""

    change: str
    write: str
    sentence: str


@dataclass(frozen=True)
class RejectedRow:
    """A layout that was not taken."""

    class_name: str
    layout: str
    check: str
    sentence: str


@dataclass(frozen=True)
class Money:
    """The economics and what they come to."""

    rows: tuple[Fact, ...]
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Page:
    """All that the template prints."""

    name: str
    feasible: bool
    verdict: str
    problems: tuple[Problem, ...]
    tiles: tuple[Tile, ...] = ()
    curve: Curve | None = None
    steps: Bars | None = None
    memory: Bars | None = None
    reasons: tuple[Reason, ...]
    classes: tuple[ClassRow, ...]
    offers: tuple[OfferRow, ...]
    economics: Money | None
    weights: tuple[Fact, ...] = ()
    engine: tuple[Fact, ...] = ()
    rejected: tuple[RejectedRow, ...]
    shown: int = SHOWN_REJECTED
    footer: str


def page_of(name: str, question: Question, answer: Answer) -> Page:
    """The page of an answer to a question."""
    chosen = answer.chosen
    page = Page(
        name=name,
        feasible=chosen is not None,
        verdict=verdict(answer),
        problems=answer.problems,
        reasons=(*answer.reasons, *(chosen.reasons if chosen else ())),
        classes=tuple(_class_row(plan) for plan in answer.plans),
        offers=tuple(OfferRow(_words(one.change.value), written(one), one.sentence) for one in answer.offers),
        economics=_money(answer.economics) if answer.economics else None,
        rejected=tuple(
            RejectedRow(one.class_name, str(one.layout or "all"), one.check.value, one.sentence)
            for one in answer.rejected
        ),
        footer=_footer(chosen),
    )
    return page if chosen is None else _with_plan(page, question, chosen)


def _with_plan(page: Page, question: Question, plan: ClassPlan) -> Page:
    demand = demand_of(question)
    binding = next(one for one in demand.wanted if one.objective.name == plan.binding_objective)
    hardware = next(one.hardware for one in question.candidates if one.name == plan.class_name)
    pool = plan.pool
    case = Case(facts=pool.facts, hardware=hardware, layout=pool.layout, setup=pool.setup)
    one_pool = len(plan.pools) == 1
    return replace(
        page,
        tiles=tuple(_tiles(plan, demand, binding)),
        curve=curve(pool, subject_of(case, demand, binding, _profile(question, plan))) if one_pool else None,
        steps=step_bars(pool, case, demand, binding.limits.tpot_s) if one_pool else None,
        memory=memory_bars(plan, hardware),
        weights=tuple(_weights(plan)),
        engine=tuple(_engine(plan)),
    )


def _profile(question: Question, plan: ClassPlan) -> Profile | None:
    """What was measured of the plan's pool, as the planner takes it."""
    for one in question.profiles:
        same = (one.class_name, one.layout, one.weights) == (plan.class_name, plan.pool.layout, plan.pool.setup.weights)
        if same and one.engine_version == question.engine_version:
            return one.profile
    return None


def _tiles(plan: ClassPlan, demand: Demand, binding: Wanted) -> Iterator[Tile]:
    predicted, limits = plan.pool.predicted, binding.limits
    first, tokens = _pool(plan, Role.PREFILL).predicted, _pool(plan, Role.DECODE).predicted
    yield Tile("layout", layouts(plan), f"on {plan.class_name}")
    yield Tile("replicas", f"{sum(pool.replicas for pool in plan.pools)}", count(plan.accelerators, "accelerator"))
    yield Tile("cost", cost(plan).removesuffix(" an hour"), "an hour" if plan.cost_per_hour is not None else "")
    yield _load_tile(plan, demand)
    yield _time_tile("TTFT", first.ttft_at_share_s, limits.ttft_s, first)
    yield _time_tile("TPOT", tokens.tpot_at_share_s, limits.tpot_s, tokens)
    yield Tile("concurrency", rounded(predicted.concurrency, 3), "requests in flight in a replica")
    yield Tile("KV cache", f"{predicted.kv_tokens:,}", "tokens in a replica")


def _pool(plan: ClassPlan, role: Role) -> Pool:
    """The pool that does this part of the work: the only one, unless prefill and decode are apart."""
    return next((pool for pool in plan.pools if pool.role is role), plan.pool)


def _load_tile(plan: ClassPlan, demand: Demand) -> Tile:
    """The load as the user stated it, and up to where the promise holds in the same unit."""
    in_flight = demand.rps == 0
    capacity = min(
        (pool.predicted.knee_concurrency if in_flight else pool.predicted.knee_rps) * pool.replicas
        for pool in plan.pools
    )
    stated = f"{rounded(demand.concurrency, 3)} in flight" if in_flight else f"{rounded(demand.total_rps, 3)} req/s"
    return Tile("load", stated, f"the promise holds up to {rounded(capacity, 3)}")


def _time_tile(name: str, value_s: float, limit_s: float, predicted: Predicted) -> Tile:
    mood = "good" if value_s <= limit_s else "bad"
    return Tile(name, seconds(value_s), kept(value_s, limit_s, predicted.share), mood)


def _class_row(plan: ClassPlan) -> ClassRow:
    return ClassRow(
        name=plan.class_name,
        layout=layouts(plan),
        weights=plan.quantization.weights.value,
        replicas=str(sum(pool.replicas for pool in plan.pools)),
        accelerators=str(plan.accelerators),
        cost=cost(plan),
    )


def _weights(plan: ClassPlan) -> Iterator[Fact]:
    quantization, speculation = plan.quantization, plan.speculation
    yield Fact("weights", f"{quantization.weights.value} from {quantization.source}")
    yield Fact("KV cache", quantization.kv.value)
    yield Fact("why", quantization.sentence)
    if quantization.revalidate:
        yield Fact("to evaluate again", ", ".join(quantization.revalidate))
    yield Fact("speculation", "on" if speculation.on else "off")
    yield Fact("why", speculation.sentence)


def _engine(plan: ClassPlan) -> Iterator[Fact]:
    for pool in plan.pools:
        of = f"{pool.role.value.lower()} " if len(plan.pools) > 1 else ""
        for flag, value in pool.flags.items():
            yield Fact(f"{of}--{flag}", "" if value == "true" else value)


def _money(economics: Economics) -> Money:
    currency = economics.currency
    amounts = (
        ("cost an hour", economics.cost_per_hour),
        ("cost a million tokens", economics.cost_per_million_tokens),
        ("the same at the load that was seen", economics.cost_per_million_tokens_measured),
        ("the API's price for the same tokens", economics.api_cost_per_million_tokens),
    )
    rows = [Fact(name, money(amount, currency)) for name, amount in amounts if amount is not None]
    if economics.utilisation is not None:
        rows.append(Fact("utilisation", percent(economics.utilisation)))
    if economics.break_even_rps is not None:
        rows.append(Fact("break-even", f"{rounded(economics.break_even_rps, 3)} requests a second, sustained"))
    if economics.break_even_tokens_per_day is not None:
        rows.append(Fact("", f"{rounded(economics.break_even_tokens_per_day, 3)} tokens a day"))
    if economics.reasons:
        rows.append(Fact("other reasons", ", ".join(economics.reasons)))
    return Money(tuple(rows), economics.sentence)


def _footer(plan: ClassPlan | None) -> str:
    if plan is None:
        return "Figures are predicted by modelfleet's performance model."
    predicted = plan.pool.predicted
    return (
        f"Times are {predicted.source.value}: TTFT {give_or_take(predicted.ttft_uncertainty)} and TPOT"
        f" {give_or_take(predicted.uncertainty)} (90 % intervals); the plan is sized for the pessimistic end."
        f" {predicted.reason}"
    )


def _words(name: str) -> str:
    """LooserObjective as "looser objective"."""
    return "".join(f" {mark.lower()}" if mark.isupper() else mark for mark in name).strip()
