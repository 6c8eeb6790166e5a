"""The figures of the report against the planner's own: what is drawn is what was answered."""

from dataclasses import replace
from itertools import pairwise

import pytest

from modelfleet.cli.report.curve import kept_share, subject_of
from modelfleet.cli.report.view import Page, page_of
from modelfleet.core.layout.answer import Answer, ClassPlan
from modelfleet.core.layout.choose import answer
from modelfleet.core.layout.demand import demand_of
from modelfleet.core.layout.question import Question
from modelfleet.core.layout.wording import gib, seconds
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.serving import predict
from modelfleet.core.perf.workload import Load
from questions import LARGE, SMALL, objective, on, question

ONE = question(objectives=(objective(ttft_s=4.0, tpot_s=0.2, share=0.9, load_rps=20.0),))
TWO = replace(
    ONE,
    objectives=(
        objective(name="chat", ttft_s=4.0, tpot_s=0.2, share=0.9, load_rps=10.0),
        objective(name="long", ttft_s=20.0, tpot_s=0.3, share=0.9, input_p50_tokens=6000, input_p95_tokens=9000),
    ),
)


def planned(asked: Question) -> tuple[Page, ClassPlan]:
    found: Answer = answer(asked)
    assert found.chosen is not None
    return page_of("chat", asked, found), found.chosen


def points(text: str) -> list[tuple[float, float]]:
    """x and y of each point, in percent of the plot, y upwards."""
    pairs = (pair.split(",") for pair in text.split())
    return [(float(x), 100 - float(y)) for x, y in pairs]


def height(line: list[tuple[float, float]], at: float) -> float:
    """The height of a line at x, between its two neighbours."""
    (x1, y1), (x2, y2) = next((one, other) for one, other in pairwise(line) if other[0] >= at)
    return y1 + (y2 - y1) * (at - x1) / (x2 - x1)


@pytest.mark.parametrize("asked", [ONE, TWO], ids=["one objective", "two objectives"])
def test_the_pessimistic_line_leaves_the_ideal_one_at_the_knee(asked):
    page, plan = planned(asked)
    assert page.curve is not None
    line, knee = points(page.curve.sure), page.curve.knee
    share = plan.pool.predicted.share
    before, after = knee * 0.93, knee * 1.07
    assert height(line, before) / before > share - 0.02
    assert height(line, after) / after < share
    assert min(y for x, y in line if x > 0.99 * line[-1][0]) < 0.5 * share * knee


@pytest.mark.parametrize("asked", [ONE, TWO], ids=["one objective", "two objectives"])
def test_what_is_predicted_lies_between_the_pessimistic_line_and_all_that_arrives(asked):
    page, _ = planned(asked)
    assert page.curve is not None
    for (x, likely), (_, sure) in zip(points(page.curve.likely), points(page.curve.sure), strict=True):
        assert sure - 0.02 <= likely <= x + 0.02


def test_the_target_is_left_of_the_knee_and_on_the_scale_of_the_ticks():
    page, plan = planned(ONE)
    assert page.curve is not None
    assert 0 < page.curve.target <= page.curve.knee < 100
    tick = page.curve.xs[-1]
    per_percent = float(tick.text.replace(",", "")) / tick.percent
    assert page.curve.target * per_percent == pytest.approx(20.0, rel=0.01)
    knee = plan.pool.predicted.knee_rps * plan.pool.replicas
    assert page.curve.knee * per_percent == pytest.approx(knee, rel=0.01)


def test_a_load_is_shown_in_the_unit_in_which_it_was_stated():
    in_flight = replace(ONE, objectives=(replace(ONE.objectives[0], load_rps=None, load_concurrency=50.0),))
    for asked, stated in ((ONE, "20 req/s"), (in_flight, "50 in flight")):
        page, _ = planned(asked)
        (tile,) = (tile for tile in page.tiles if tile.name == "load")
        assert tile.value == stated


def test_more_load_never_keeps_a_larger_share():
    _, plan = planned(ONE)
    demand = demand_of(ONE)
    case = Case(facts=plan.pool.facts, hardware=LARGE, layout=plan.pool.layout, setup=plan.pool.setup)
    subject = subject_of(case, demand, demand.wanted[0], None)
    shares = [
        kept_share(predict(case, demand.lengths, Load(requests_per_s=rate / 4)), subject.limits)
        for rate in range(1, 160)
    ]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.9 > shares[-1]


def test_the_memory_bar_is_the_memory_that_was_predicted():
    page, plan = planned(ONE)
    assert page.memory is not None
    memory = plan.pool.predicted.memory
    shown = {part.name: (part.percent, part.value) for part in page.memory.rows[0].parts}
    assert shown["weights"][1] == gib(memory.weights_bytes)
    assert shown["KV cache"][1] == gib(memory.kv_bytes)
    assert shown["KV cache"][0] == pytest.approx(memory.kv_bytes / LARGE.memory_bytes * 100, rel=0.01)
    assert sum(percent for percent, _ in shown.values()) == pytest.approx(100, abs=0.5)


@pytest.mark.parametrize("tpot_s", [0.2, 0.06], ids=["whole prompts in a step", "prompts cut in chunks"])
def test_a_full_step_on_the_bar_is_the_step_of_the_plan(tpot_s):
    page, plan = planned(replace(ONE, objectives=(replace(ONE.objectives[0], tpot_s=tpot_s),)))
    assert page.steps is not None
    assert page.steps.rows[1].value == seconds(plan.pool.predicted.step_s)
    assert page.steps.mark is not None
    first, second = (sum(part.percent for part in row.parts) for row in page.steps.rows)
    assert first < second <= page.steps.mark.percent


def test_every_class_and_every_rejected_layout_is_on_the_page():
    asked = replace(ONE, candidates=(on(LARGE), on(SMALL)))
    found = answer(asked)
    page = page_of("chat", asked, found)
    assert [row.name for row in page.classes] == [plan.class_name for plan in found.plans]
    assert [row.sentence for row in page.rejected] == [one.sentence for one in found.rejected]


def test_without_a_plan_there_is_nothing_to_draw():
    asked = replace(ONE, objectives=(objective(ttft_s=0.001, tpot_s=0.001),))
    page = page_of("chat", asked, answer(asked))
    assert (page.curve, page.steps, page.memory, page.tiles) == (None, None, None, ())
    assert not page.feasible
    assert page.offers
