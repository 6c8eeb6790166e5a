"""From the planner's answer to a plan that can be pinned, or to the verdict why there is none. Pure.

Figures are rounded here, once: a stored plan and what status shows of it do not move with noise.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from modelfleet.api.acceleratorclass import AcceleratorClass, Device
from modelfleet.api.modeldeployment import ModelDeployment
from modelfleet.api.reasons import Reason
from modelfleet.api.sources import ModelSource
from modelfleet.core.layout.answer import Answer, Check, ClassPlan, Pool, Problem
from modelfleet.core.layout.answer import Reason as Because
from modelfleet.core.layout.demand import demand_of
from modelfleet.core.layout.question import Question, Strategy
from modelfleet.core.layout.wording import count, percent, rounded, seconds
from modelfleet.core.plan import MOST, SENTENCE, Hosted, Plan, Planned, Predicted, Why
from modelfleet.core.planner import Choice, plan_of, states_nothing
from modelfleet.core.snapshot import Settings
from modelfleet.core.verdict import Verdict, no

_REASONS, _REJECTED, _OFFERS = 24, 16, 3
_SUMMARY = 4000  # characters of the plan's sentence
_SAID_FIRST = (Check.FITS_ONE, Check.SHARDING, Check.PINS, Check.LOAD)
"""The reasons that the condition's message gives, and of a choice among classes the score; status.plan.reasons has
all."""


_NONE = no(Reason.INFEASIBLE, "no layout was found")


@dataclass(frozen=True)
class Planning:
    """A plan to pin, or the verdict why none is; `shown` is a plan that exists and is not carried out."""

    plan: Plan | None = None
    verdict: Verdict = _NONE
    shown: Plan | None = None


@dataclass(frozen=True)
class Setting:
    """Whose plan it is, what the operator adds, and the revisions that fetched sources are pinned to."""

    deployment: ModelDeployment
    classes: Mapping[str, AcceleratorClass]
    settings: Settings
    revisions: Mapping[str, str] = field(default_factory=dict)


def decide_plan(question: Question, answer: Answer, setting: Setting) -> Planning:
    """
    | the question has a fatal problem | Contradiction |
    | no class keeps the promise | Infeasible (EngineVersionNotAllowed where that is the bound), with the offers |
    | a class's plan can be rolled out | the first such plan, with those of the other classes beside it |
    | else | NotRolledOut, with the plan shown |
    """
    fatal = [problem for problem in answer.problems if problem.fatal]
    if fatal:
        return Planning(verdict=no(Reason.CONTRADICTION, "; ".join(map(_problem, fatal[:3]))))
    if answer.infeasible is not None or answer.chosen is None:
        return Planning(verdict=_infeasible(answer))
    apart = question.pins.strategy is Strategy.DISAGGREGATED
    chosen = next((plan for plan in answer.plans if _runs_here(plan) and not apart), None)
    if chosen is None:
        shown = _plan(question, answer, answer.chosen, setting)
        return Planning(verdict=_not_rolled_out(answer.chosen, asked=apart), shown=shown)
    return Planning(plan=_with_others(question, answer, chosen, setting))


def _with_others(question: Question, answer: Answer, chosen: ClassPlan, setting: Setting) -> Plan:
    """The chosen class's plan, with one for each other class that keeps the promise, in the planner's order."""
    others = [each for each in answer.plans if each is not chosen and _runs_here(each)]
    return _plan(question, answer, chosen, setting).model_copy(
        update={
            "others": tuple(_beside(_plan(question, answer, each, setting)) for each in others),
            "unused": tuple(_unused(answer, setting, {each.class_name for each in (chosen, *others)})),
        }
    )


def _beside(plan: Plan) -> Plan:
    """Without what only the first plan tells: why it is as it is."""
    told: dict[str, object] = {"reasons": (), "rejected": (), "summary": ""}
    return plan.model_copy(update={"planned": plan.planned.model_copy(update=told) if plan.planned else None})


def _unused(answer: Answer, setting: Setting, used: Collection[str]) -> Iterable[Why]:
    """The listed classes that have no plan, each with what speaks against it."""
    for name, kind in setting.classes.items():
        if name in used:
            continue
        why = next((each for each in answer.rejected if each.class_name == name), None)
        apart = any(each.class_name == name for each in answer.plans)
        if not kind.spec.is_predictable:
            yield Why(check=Check.SCORE.value, sentence=states_nothing(kind), class_name=name)
        elif why is not None and not apart:
            yield Why(check=why.check.value, sentence=_cut(why.sentence), class_name=name)
        else:
            sentence = "only prefill and decode apart keep the promise there, which this version does not roll out"
            yield Why(check=Check.DISAGGREGATION.value, sentence=sentence, class_name=name)


def _runs_here(plan: ClassPlan) -> bool:
    return plan.rolled_out and len(plan.pools) == 1


def _infeasible(answer: Answer) -> Verdict:
    bound = answer.infeasible
    said = bound.sentence.rstrip(".") if bound else "no class keeps the promise"
    offers = [offer.sentence.rstrip(".") for offer in answer.offers[:_OFFERS]]
    nearest = f"; nearest that would work: {'; or '.join(offers)}" if offers else ""
    of_engine = bound is not None and bound.check is Check.ENGINE
    return no(Reason.ENGINE_VERSION_NOT_ALLOWED if of_engine else Reason.INFEASIBLE, said + nearest)


def _problem(problem: Problem) -> str:
    """The sentence with its place, which most sentences name themselves."""
    sentence = problem.sentence.rstrip(".")
    return sentence if problem.field in sentence else f"{problem.field}: {sentence}"


def _not_rolled_out(plan: ClassPlan, asked: bool) -> Verdict:
    layouts = " and ".join(str(each.layout) for each in plan.pools)
    where = f"on class {plan.class_name}"
    if asked:
        what = f"spec.parallelism.strategy is Disaggregated; the plan {where} is {layouts}"
    else:
        what = f"only prefill and decode apart keep the promise {where}: {layouts}"
    return no(
        Reason.NOT_ROLLED_OUT,
        f"{what}, {count(plan.accelerators, 'accelerator')}; status.plan shows it, and this version does not roll it"
        " out",
    )


def _plan(question: Question, answer: Answer, chosen: ClassPlan, setting: Setting) -> Plan:
    pool, kind = chosen.pool, setting.classes[chosen.class_name]
    choice = Choice(
        layout=pool.layout,
        source=ModelSource(pool.source),
        revisions=setting.revisions,
        flags={flag: value for flag, value in pool.flags.items() if not _of_gpus(flag, kind)},
        planned=_planned(question, answer, chosen, kind),
        checkpoint_bytes=pool.facts.checkpoint_bytes or pool.predicted.memory.weights_bytes * pool.layout.accelerators,
    )
    return plan_of(setting.deployment, kind, setting.settings, choice)


def _of_gpus(flag: str, kind: AcceleratorClass) -> bool:
    """A flag that means something else, or nothing, to the engine's CPU build; its own default is left."""
    return kind.spec.device is Device.CPU and flag in ("block-size", "gpu-memory-utilization")


def _planned(question: Question, answer: Answer, chosen: ClassPlan, kind: AcceleratorClass) -> Planned:
    pool = chosen.pool
    why = [*answer.reasons, *chosen.reasons]
    return Planned(
        role=pool.role.value,
        weights=pool.setup.weights.value,
        kv_cache=pool.setup.kv.value,
        token_budget=pool.setup.token_budget,
        sequence_cap=pool.setup.sequence_cap,
        block_tokens=None if _of_gpus("block-size", kind) else pool.setup.block_tokens,
        replicas=min(pool.replicas, MOST),
        predicted=_predicted(pool),
        hosted=_hosted(question, pool),
        reasons=tuple(Why(check=each.check.value, sentence=_cut(each.sentence)) for each in why[:_REASONS]),
        rejected=tuple(_rejected(answer, chosen)),
        summary=_summary(chosen, why, of_classes=len(question.candidates))[:_SUMMARY],
    )


def _predicted(pool: Pool) -> Predicted:
    of = pool.predicted
    return Predicted(
        ttft=seconds(of.ttft_at_share_s),
        tpot=seconds(of.tpot_at_share_s),
        concurrency=rounded(of.concurrency),
        kv_cache_tokens=_coarse(of.memory.kv_tokens),
        knee_requests_per_second=rounded(of.knee_rps),
        knee_bound=of.knee_bound,
        uncertainty=percent(of.uncertainty),
        source=of.source.value,
    )


def _hosted(question: Question, pool: Pool) -> Hosted:
    demand = demand_of(question)
    return Hosted(
        load_rps=_figure(demand.total_rps),
        knee_rps=_figure(pool.predicted.knee_rps),
        input_tokens=_figure(demand.lengths.input_tokens),
        output_tokens=_figure(demand.lengths.output_tokens),
        shared_prefix_tokens=_figure(demand.lengths.shared_prefix_tokens),
        knee_measured=pool.predicted.knee_measured,
    )


def _figure(value: float) -> float:
    return min(float(f"{value:.4g}"), 1e12)


def _rejected(answer: Answer, chosen: ClassPlan) -> Iterable[Why]:
    """The other classes that would do and are not used, then what was rejected."""
    for plan in answer.plans:
        if plan is not chosen and not _runs_here(plan):
            score = f"{plan.class_name} keeps the promise in {plan.pool.layout} at {rounded(plan.score.value, 3)}"
            yield Why(
                check=Check.SCORE.value,
                sentence=f"{score} {plan.score.unit}, against {rounded(chosen.score.value, 3)} {chosen.score.unit}",
                class_name=plan.class_name,
                layout=str(plan.pool.layout),
            )
    for each in answer.rejected[: _REJECTED - len(answer.plans) + 1]:
        layout = "" if each.layout is None else str(each.layout)
        yield Why(check=each.check.value, sentence=_cut(each.sentence), class_name=each.class_name, layout=layout)


def _summary(chosen: ClassPlan, why: Iterable[Because], of_classes: int) -> str:
    said: list[str] = []
    for check in (*_SAID_FIRST, *((Check.SCORE,) if of_classes > 1 else ())):
        said += [each.sentence.rstrip(".") for each in why if each.check is check][:1]
    at = chosen.pool.predicted
    figures = (
        f"{at.source.value}: ttft {seconds(at.ttft_at_share_s)}, tpot {seconds(at.tpot_at_share_s)} for the wanted"
        f" share, up to {rounded(at.knee_rps)} requests a second a replica"
    )
    short = [chosen.shortfall_sentence.rstrip(".")] if chosen.shortfall_sentence else []
    return "; ".join([*said, figures, *short])


def _coarse(tokens: int) -> int:
    """Three significant digits, rounded down; a model without a growing cache has room for more than can be told."""
    unit = int(10 ** max(0, len(str(tokens)) - 3))
    return min(tokens // unit * unit, MOST)


def _cut(sentence: str) -> str:
    return sentence if len(sentence) <= SENTENCE else sentence[: SENTENCE - 1] + "…"
