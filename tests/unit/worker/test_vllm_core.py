"""What was in a step, without a look at each sequence: the same as vLLM says."""

from types import SimpleNamespace
from typing import Any

import pytest

from modelfleet_worker.vllm_core import hastened


def step(**change: Any) -> Any:
    cached = SimpleNamespace(num_output_tokens=[3, 70])
    whole = {
        "scheduled_new_reqs": [],
        "scheduled_cached_reqs": cached,
        "scheduled_encoder_input_stats": None,
        "num_scheduled_tokens": {"a": 1, "b": 4},
        "total_num_scheduled_tokens": 5,
    }
    return SimpleNamespace(**whole | change)


def vllm(scheduled: Any) -> str:
    return "vLLM's own"


def made(*numbers: int) -> tuple[int, ...]:
    return numbers


def test_a_step_in_which_all_decode_is_counted_by_its_sums() -> None:
    assert hastened(vllm, made)(step()) == (0, 0, 2, 5)


@pytest.mark.parametrize(
    "scheduled",
    [
        pytest.param(step(scheduled_new_reqs=[1]), id="a new sequence"),
        pytest.param(
            step(scheduled_cached_reqs=SimpleNamespace(num_output_tokens=[0, 70])), id="a sequence in its prompt"
        ),
        pytest.param(step(scheduled_encoder_input_stats=1), id="an image"),
        pytest.param(SimpleNamespace(), id="a scheduler of another version"),
    ],
)
def test_every_other_step_is_counted_by_vllm(scheduled: Any) -> None:
    assert hastened(vllm, made)(scheduled) == "vLLM's own"
