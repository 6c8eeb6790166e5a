"""When speculation is on, its table by batch size, and each reason for which it stays off."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from modelfleet.core.layout.question import SpeculationMode, SpeculationWish
from modelfleet.core.layout.shape import Layout
from modelfleet.core.model.facts import Scheme
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.memory import memory_use
from modelfleet.core.perf.workload import EngineSetup
from modelfleet.core.speculation import WORTH, At, decide_speculation
from questions import LARGE, facts

SETUP = EngineSetup(
    version="0.32.0", token_budget=1024, sequence_cap=128, context_limit_tokens=16384, weights=Scheme.FP8
)
CASE = Case(facts=facts("Llama-3.3-70B-Instruct"), hardware=LARGE, layout=Layout(4), setup=SETUP)
WISH = SpeculationWish(method="eagle3", source="hf://org/draft", acceptance=0.75)
AT = At(running=2.0, context_tokens=1500.0, bound="tpot", memory=memory_use(CASE), kv_tokens_needed=3000.0)


def decide(case: Case = CASE, wish: SpeculationWish = WISH, **at: Any):
    return decide_speculation(case, wish, replace(AT, **at))


def test_a_small_batch_bound_by_latency_speculates():
    got = decide()
    assert got.on
    assert got.tokens >= 1
    assert got.gate_sequences >= 2
    assert "measured" in got.sentence


def test_the_table_covers_every_batch_once_and_ends_with_off_above_the_gate():
    table = decide().table
    assert table[0][0] == 1
    assert all(after[0] == before[1] + 1 for before, after in pairwise(table))
    tokens = [entry[2] for entry in table]
    assert tokens == sorted(tokens, reverse=True)
    assert all(last >= first for first, last, _ in table)


@pytest.mark.parametrize(
    ("wish", "at", "says"),
    [
        pytest.param(replace(WISH, mode=SpeculationMode.OFF), {}, "spec.speculation.mode", id="the user says off"),
        pytest.param(SpeculationWish(), {}, "no draft is offered", id="nothing is offered"),
        pytest.param(SpeculationWish(method="magic"), {}, "acceptance rate of magic", id="an unknown method"),
        pytest.param(replace(WISH, acceptance=1.0), {}, "acceptance rate", id="an acceptance that cannot be"),
        pytest.param(WISH, {"bound": "kv"}, "the constraint is capacity", id="the KV cache gives out first"),
        pytest.param(WISH, {"bound": "throughput"}, "the constraint is capacity", id="throughput gives out first"),
        pytest.param(WISH, {"running": 4000.0}, "sequences run together", id="the batch is above the gate"),
        pytest.param(WISH, {"kv_tokens_needed": 1e9}, "the draft and its cache take", id="no memory for the draft"),
        pytest.param(replace(WISH, acceptance=0.02), {}, "at no batch it pays", id="too few draft tokens are accepted"),
    ],
)
def test_what_keeps_it_off_is_said(wish, at, says):
    got = decide(wish=wish, **at)
    assert not got.on
    assert says in got.sentence
    assert got.table == ()


def test_data_parallel_replicas_do_not_speculate_unless_the_cap_is_below_the_gate():
    mixture = replace(CASE, facts=facts("DeepSeek-V3"), layout=Layout(1, 1, 8, expert=True))
    hardware = replace(LARGE, memory_bytes=141 * 1024**3)
    mixture = replace(mixture, hardware=hardware)
    memory = memory_use(mixture)
    wish = SpeculationWish(method="mtp", acceptance=0.75)
    wide = decide(replace(mixture, setup=replace(SETUP, sequence_cap=1024)), wish, memory=memory)
    assert not wide.on
    assert "ignores the table" in wide.sentence
    narrow = replace(mixture, setup=replace(SETUP, sequence_cap=2))
    assert decide(narrow, wish, memory=memory).on


def test_a_draft_model_costs_its_own_passes():
    head = decide(wish=WISH)
    small = decide(wish=replace(WISH, method="draft_model", draft=facts("Llama-3.1-8B")))
    assert small.gate_sequences <= head.gate_sequences
    assert small.memory_bytes > head.memory_bytes or not small.on


def test_the_step_of_a_verification_fits_the_token_budget():
    tight = replace(CASE, setup=replace(SETUP, token_budget=8, sequence_cap=8))
    for _, last, tokens in decide(tight).table:
        assert tokens == 0 or last * (1 + tokens) <= 8


def test_better_acceptance_never_lowers_the_gate():
    gates = [decide(wish=replace(WISH, acceptance=rate)).gate_sequences for rate in (0.3, 0.5, 0.7, 0.9)]
    assert gates == sorted(gates)
    assert WORTH > 1
