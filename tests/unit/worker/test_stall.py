"""When an engine at work counts as stalled: seconds in which no step was taken, by looks that a test makes up."""

import pytest

from modelfleet_worker.stall import STALLED_S, Stall, steps_of


def looks(*rows: tuple[float, int, bytes | None]) -> float:
    """Seconds stalled after these looks: when, requests in flight, what moves with a step."""
    stall = Stall()
    for row in rows:
        stall.observe(*row)
    return stall.stalled_s


def test_work_without_a_step_counts() -> None:
    assert looks((0, 1, b"5"), (10, 1, b"5"), (STALLED_S, 1, b"5")) == STALLED_S


def test_a_step_forgives_all() -> None:
    assert looks((0, 1, b"5"), (10, 1, b"5"), (12, 1, b"6")) == 0


def test_a_page_that_does_not_come_is_no_step() -> None:
    assert looks((0, 1, b"5"), (10, 1, None), (20, 1, b"5")) == STALLED_S


def test_time_without_work_neither_counts_nor_forgives() -> None:
    assert looks((0, 1, b"5"), (10, 1, b"5"), (100, 0, None), (105, 1, b"5")) == 15


@pytest.mark.parametrize("gone", [b"python_gc_objects 3\n", b'vllm:admission_rejections_total{reason="x"} 3.0\n'])
def test_what_moves_without_the_engine_is_no_step(gone: bytes) -> None:
    assert steps_of(b"vllm:generation_tokens_total 7.0\n" + gone) == b"vllm:generation_tokens_total 7.0"
