"""What holds of every answer: no crash, memory and fabric respected, and more of anything is never worse."""

import json
from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from modelfleet.core.layout.answer import Answer, to_json
from modelfleet.core.layout.choose import answer
from modelfleet.core.layout.prose import tell
from modelfleet.core.layout.question import Bounds, Objective, Pins, Prefer, Question, SpeculationWish, Strategy
from modelfleet.core.model.facts import Scheme
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.memory import memory_use
from questions import GIB, LARGE, SMALL, nodes, objective, on, question, variants

MODELS = (
    "Llama-3.2-1B-Instruct",
    "Llama-3.1-8B-Instruct",
    "Llama-3.3-70B-Instruct",
    "Qwen3-30B-A3B",
    "gemma-3-27b-it",
    "gpt-oss-20b",
    "DeepSeek-V3",
)
HARDWARE = (
    LARGE,
    SMALL,
    replace(LARGE, name="wide", memory_bytes=192 * GIB, domain=72, accelerators_per_node=4),
    replace(SMALL, name="pairs", memory_bytes=48 * GIB, domain=2, price_per_hour=None),
)
FEW = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])

times = st.floats(0.001, 100.0)
tokens = st.integers(1, 30_000)


@st.composite
def objectives(draw: st.DrawFn) -> Objective:
    p50, out = draw(tokens), draw(st.integers(1, 3000))
    load = {"load_rps": draw(st.floats(0.01, 500.0))}
    if draw(st.booleans()):
        load = {"load_concurrency": draw(st.floats(1.0, 5000.0))}
    return objective(
        ttft_s=draw(times),
        tpot_s=draw(st.floats(0.001, 2.0)),
        share=draw(st.floats(0.5, 0.999)),
        input_p50_tokens=p50,
        input_p95_tokens=draw(st.integers(p50, 60_000)),
        output_p50_tokens=out,
        output_p95_tokens=draw(st.integers(out, 6000)),
        **load,
    )


@st.composite
def questions(draw: st.DrawFn) -> Question:
    degree = st.none() | st.integers(1, 16)
    pins = Pins(
        strategy=draw(st.sampled_from(Strategy)),
        tensor=draw(degree),
        pipeline=draw(st.none() | st.integers(1, 4)),
        data=draw(st.none() | st.integers(1, 4)),
        expert=draw(st.none() | st.booleans()),
        sequence_cap=draw(st.none() | st.integers(1, 2000)),
        token_budget=draw(st.none() | st.integers(1, 20_000)),
    )
    several = st.lists(st.sampled_from(HARDWARE), min_size=1, max_size=2, unique_by=lambda one: one.name)
    room = st.none() | st.integers(0, 4).map(lambda count: nodes(count, 4))
    schemes = draw(st.lists(st.sampled_from([Scheme.BF16, Scheme.FP8, Scheme.INT4]), min_size=1, unique=True))
    return question(
        variants=variants(draw(st.sampled_from(MODELS)), *schemes),
        candidates=tuple(on(one, nodes=draw(room)) for one in draw(several)),
        objectives=tuple(
            replace(one, name=f"objective-{index}")
            for index, one in enumerate(draw(st.lists(objectives(), min_size=1, max_size=2)))
        ),
        pins=draw(st.sampled_from([Pins(), pins])),
        bounds=Bounds(max_accelerators=draw(st.none() | st.integers(1, 200))),
        prefer=draw(st.sampled_from(Prefer)),
        max_context_tokens=draw(st.none() | st.integers(1, 200_000)),
        speculation=SpeculationWish(method=draw(st.none() | st.sampled_from(["ngram", "eagle3"]))),
    )


def plain(rps: float, model: str, **changes: object) -> Question:
    return question(variants=variants(model), objectives=(objective(load_rps=rps, **changes),), max_context_tokens=8192)


def score(got: Answer) -> float:
    """Plans that can be carried out; whether a fleet is large enough for two pools is no matter of cost."""
    return got.chosen.score.value if got.chosen and got.chosen.rolled_out else float("inf")


@FEW
@given(asked=questions())
def test_any_question_gets_a_plan_or_the_bound_that_cannot_hold(asked):
    got = answer(asked)
    assert got.chosen or got.infeasible or any(problem.fatal for problem in got.problems)
    assert json.dumps(to_json(got))
    assert tell(asked, got).strip()
    for plan in got.plans:
        assert all(reason.sentence for reason in plan.reasons)


@FEW
@given(asked=questions())
def test_no_plan_violates_memory_fabric_bounds_or_its_own_promise(asked):
    hardware = {one.name: one.hardware for one in asked.candidates}
    got = answer(asked)
    for plan in (*got.plans, *(offer.plan for offer in got.offers)):
        for pool in plan.pools:
            chip = hardware[pool.class_name]
            case = Case(facts=pool.facts, hardware=chip, layout=pool.layout, setup=pool.setup)
            assert memory_use(case).fits, pool
            assert pool.layout.tensor <= chip.domain
            assert pool.setup.token_budget is not None
            assert pool.predicted.kv_tokens > 0
        if plan.rolled_out and len(asked.objectives) == 1 and plan in got.plans:
            at, promised = plan.pool.predicted, asked.objectives[0]
            assert at.ttft_at_share_s <= promised.ttft_s
            assert at.tpot_at_share_s <= promised.tpot_s
    most = asked.bounds.max_accelerators
    assert all(most is None or plan.accelerators <= most for plan in got.plans)


@FEW
@given(
    rps=st.floats(0.1, 60.0),
    model=st.sampled_from(MODELS[:4]),
    tpot=st.floats(0.01, 0.3),
    ttft=st.floats(0.2, 5.0),
    more=st.floats(1.0, 4.0),
    key=st.sampled_from(["ttft_s", "tpot_s"]),
)
def test_a_looser_objective_is_never_costlier(rps, model, tpot, ttft, more, key):
    times = {"ttft_s": ttft, "tpot_s": tpot}
    tight = score(answer(plain(rps, model, **times)))
    loose = score(answer(plain(rps, model, **(times | {key: times[key] * more}))))
    assert loose <= tight


@FEW
@given(rps=st.floats(0.1, 20.0), model=st.sampled_from(MODELS[:4]), share=st.floats(1.0, 2.0))
def test_more_memory_never_gives_fewer_kv_tokens(rps, model, share):
    asked = replace(plain(rps, model, ttft_s=10.0, tpot_s=0.5), pins=Pins(tensor=2, token_budget=1024, sequence_cap=64))
    wider = replace(LARGE, memory_bytes=int(LARGE.memory_bytes * share))
    small = answer(asked).chosen
    large = answer(replace(asked, candidates=(on(wider),))).chosen
    if small is not None:
        assert large is not None
        assert large.pool.predicted.kv_tokens >= small.pool.predicted.kv_tokens


@FEW
@given(rps=st.floats(0.1, 60.0), few=st.integers(0, 4), more=st.integers(0, 4), prefer=st.sampled_from(Prefer))
def test_more_nodes_are_never_worse(rps, few, more, prefer):
    def placed(count: int) -> tuple[bool, float]:
        candidates = (on(LARGE, nodes=nodes(count, 8)),)
        got = answer(replace(plain(rps, MODELS[2], ttft_s=3.0, tpot_s=0.3), candidates=candidates, prefer=prefer))
        return (True, score(got)) if got.chosen is None else (got.chosen.shortfall > 0, score(got))

    assert placed(few + more) <= placed(few)
