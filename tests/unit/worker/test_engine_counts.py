"""What is counted of an engine's steps, with numbers as vLLM gives them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from modelfleet_worker.engine_counts import Cell, EngineCounts, EngineSeen, Word, read_engines


def scheduler(**change: Any) -> SimpleNamespace:
    """SchedulerStats after a step of 3 decoding sequences and 70 prompt tokens."""
    details = SimpleNamespace(is_dummy=False, num_generation_requests=3, num_ctx_tokens=70, elapsed_ms=30.0)
    prefix = SimpleNamespace(queries=70, hits=16)
    drafted = SimpleNamespace(num_draft_tokens=9, num_accepted_tokens=4)
    base = {"num_running_reqs": 4, "num_waiting_reqs": 2, "num_skipped_waiting_reqs": 1, "kv_cache_usage": 0.25}
    return SimpleNamespace(
        **{**base, "prefix_cache_stats": prefix, "spec_decoding_stats": drafted, "iteration_details": details, **change}
    )


def iteration(*gaps_s: float) -> SimpleNamespace:
    return SimpleNamespace(
        prompt_token_stats=SimpleNamespace(total=70),
        num_generation_tokens=4,
        num_preempted_reqs=1,
        inter_token_latencies_iter=list(gaps_s),
    )


@pytest.fixture
def counts(tmp_path: Path) -> EngineCounts:
    counts = EngineCounts(tmp_path, 0)
    counts.sized(1000)
    return counts


def seen(folder: Path) -> EngineSeen:
    (engine,) = read_engines(folder)
    return engine


def test_a_step_is_counted(counts: EngineCounts, tmp_path: Path) -> None:
    counts.record(scheduler(), iteration(0.02, 0.025))
    engine = seen(tmp_path)
    assert (engine.running, engine.waiting, engine.kv_used_tokens, engine.kv_total_tokens) == (4, 3, 250, 1000)
    assert {word.name: count for word, count in engine.counts.items()} == {
        "PROMPT_TOKENS": 70,
        "GENERATION_TOKENS": 4,
        "PREEMPTIONS": 1,
        "PREFIX_QUERIED_TOKENS": 70,
        "PREFIX_HIT_TOKENS": 16,
        "DRAFTED_TOKENS": 9,
        "ACCEPTED_TOKENS": 4,
    }
    assert engine.cells == {(3, 2): Cell(1, 0.02, 3, 70)}


def test_steps_of_like_composition_share_a_cell(counts: EngineCounts, tmp_path: Path) -> None:
    counts.record(scheduler(), iteration(0.02))
    counts.record(scheduler(), iteration(0.04))
    assert seen(tmp_path).cells == {(3, 2): Cell(2, 0.06, 6, 140)}


def test_a_step_without_a_decoding_sequence_takes_what_the_engine_waited(counts: EngineCounts, tmp_path: Path) -> None:
    counts.record(scheduler(), None)
    assert seen(tmp_path).cells == {(3, 2): Cell(1, 0.03, 3, 70)}


def test_a_step_of_which_nothing_is_told_is_one_of_decodes_by_the_tokens_that_came_of_it(tmp_path: Path) -> None:
    counts = EngineCounts(tmp_path, 0, by_sums=True)
    counts.record(scheduler(iteration_details=None), iteration(0.02, 0.025))
    counts.record(scheduler(iteration_details=None), iteration())
    counts.record(scheduler(iteration_details=None), None)
    assert seen(tmp_path).cells == {(2, 0): Cell(1, 0.02, 2, 0)}


def test_with_several_api_servers_a_step_of_which_nothing_is_told_is_left_out(
    counts: EngineCounts, tmp_path: Path
) -> None:
    counts.record(scheduler(iteration_details=None), iteration(0.02, 0.025))
    assert seen(tmp_path).cells == {}


def test_a_dummy_step_of_a_data_parallel_rank_is_none(counts: EngineCounts, tmp_path: Path) -> None:
    stats = scheduler()
    stats.iteration_details.is_dummy = True
    counts.record(stats, None)
    assert seen(tmp_path).cells == {}


def test_vllm_s_own_logger_is_left_nothing_to_print_for_a_step(counts: EngineCounts) -> None:
    stats = scheduler()
    counts.record(stats, iteration(0.02))
    assert stats.iteration_details is None


def test_engines_are_told_apart_and_a_process_that_saw_a_step_last_knows_the_present(tmp_path: Path) -> None:
    for engine in (0, 1):
        EngineCounts(tmp_path, engine).record(scheduler(), iteration(0.02))
    (tmp_path / "engine0-1").write_bytes((next(tmp_path.glob("engine0-*"))).read_bytes())
    own = EngineCounts(tmp_path, 0)
    own.record(scheduler(num_running_reqs=9), None)
    first, second = read_engines(tmp_path)
    assert (first.engine, first.running, first.counts[Word.GENERATION_TOKENS]) == (0, 9, 8)
    assert (second.engine, second.running, second.counts[Word.GENERATION_TOKENS]) == (1, 4, 4)


def test_without_a_file_there_is_no_engine(tmp_path: Path) -> None:
    assert read_engines(tmp_path) == ()
