"""Which layouts are looked at: heads, experts and blocks divide, tensor stays in the fabric, stages come last."""

from dataclasses import replace

import pytest

from modelfleet.core.layout.answer import Check
from modelfleet.core.layout.question import Pins, Strategy
from modelfleet.core.layout.shape import Layout
from modelfleet.core.layout.shapes import impossible, nodes_of, single_stage, staged
from questions import LARGE, SMALL, facts, question

RACK = replace(LARGE, name="rack", domain=72, accelerators_per_node=4)


def names(layouts: list[Layout]) -> list[str]:
    return [str(layout) for layout in layouts]


def test_a_dense_model_is_spread_by_tensor_alone():
    assert names(single_stage(question(), facts("Llama-3.3-70B-Instruct"), LARGE)) == ["tp1", "tp2", "tp4", "tp8"]


def test_tensor_parallelism_stays_in_the_fabric_domain():
    assert names(single_stage(question(), facts("Llama-3.3-70B-Instruct"), SMALL)) == ["tp1"]
    assert names(single_stage(question(), facts("Llama-3.3-70B-Instruct"), RACK))[-1] == "tp64"


def test_degrees_that_do_not_share_out_the_heads_are_left_out():
    assert names(single_stage(question(), facts("Qwen2.5-7B-Instruct"), LARGE)) == ["tp1", "tp2", "tp4"]


def test_a_mixture_is_spread_by_experts_and_attention_ranks_too():
    got = names(single_stage(question(), facts("DeepSeek-V3"), LARGE))
    assert {"tp8", "tp8-ep8", "tp4-dp2-ep8", "tp1-dp8-ep8"} <= set(got)
    assert got[0] == "tp1"


def test_attention_ranks_are_looked_at_only_where_tensor_parallelism_copies_the_cache():
    got = names(single_stage(question(), facts("Qwen3-30B-A3B"), LARGE))  # 4 KV heads
    assert "tp4-dp2-ep8" in got
    assert "tp2-dp2-ep4" not in got


def test_stages_are_whole_domains():
    got = staged(question(), facts("Llama-3.1-405B-Instruct"), LARGE)
    assert names(got)[:2] == ["tp8-pp2", "tp8-pp3"]
    assert nodes_of(got[0], LARGE) == 2


def test_pins_leave_only_what_agrees():
    model = facts("Llama-3.3-70B-Instruct")
    assert names(single_stage(question(pins=Pins(tensor=4)), model, LARGE)) == ["tp4"]
    assert names(single_stage(question(pins=Pins(strategy=Strategy.REPLICAS)), model, LARGE)) == ["tp1"]
    assert names(single_stage(question(pins=Pins(strategy=Strategy.SHARDED)), model, LARGE)) == ["tp2", "tp4", "tp8"]
    assert single_stage(question(pins=Pins(pipeline=2)), model, LARGE) == []
    assert names(staged(question(pins=Pins(pipeline=2, tensor=4)), model, LARGE)) == ["tp4-pp2"]


@pytest.mark.parametrize(
    ("model", "layout", "check", "says"),
    [
        pytest.param("Llama-3.1-8B", Layout(3), Check.DIVISIBILITY, "1, 2, 4, 8, 16 and 32 can", id="odd degree"),
        pytest.param("Llama-3.1-8B", Layout(16), Check.FABRIC, "joins 8", id="beyond the fabric"),
        pytest.param("Llama-3.1-8B", Layout(1, 64), Check.PIPELINE, "32 layers", id="more stages than layers"),
        pytest.param("Llama-3.1-8B", Layout(2, expert=True), Check.EXPERTS, "is dense", id="experts of a dense model"),
        pytest.param("Llama-3.1-8B", Layout(1, 1, 2), Check.DATA, "replicas do the same", id="ranks of a dense model"),
        pytest.param("Mixtral-8x7B", Layout(2, 1, 8, expert=True), Check.EXPERTS, "8 experts", id="too few experts"),
        pytest.param(
            "Qwen3-235B-A22B-FP8", Layout(8), Check.DIVISIBILITY, "fp8 blocks", id="expert pieces against fp8 blocks"
        ),
    ],
)
def test_what_cannot_be_says_why(model, layout, check, says):
    got = impossible(question(), layout, facts(model), LARGE)
    assert got is not None
    assert got.check is check
    assert says in got.sentence


def test_whole_experts_need_no_pieces():
    assert impossible(question(), Layout(8, expert=True), facts("Qwen3-235B-A22B-FP8"), LARGE) is None


@pytest.mark.parametrize("word", ["tp8", "tp8-pp2", "tp4-dp4-ep16", "tp1-dp8-ep8"])
def test_a_layout_is_written_as_it_is_read(word):
    assert str(Layout.parse(word)) == word
