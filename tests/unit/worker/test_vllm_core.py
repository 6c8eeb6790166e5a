"""What was in a step is told by vLLM, but for steps in which all sequences decode."""

from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from modelfleet_worker.vllm_core import hastened


def step(**change: Any) -> Any:
    cached = SimpleNamespace(num_output_tokens=[3, 70])
    whole = {"scheduled_new_reqs": [], "scheduled_cached_reqs": cached, "scheduled_encoder_input_stats": None}
    return SimpleNamespace(**whole | change)


def core(**parallel: int) -> Any:
    return SimpleNamespace(vllm_config=SimpleNamespace(parallel_config=SimpleNamespace(**parallel)))


def told(engine: Any, scheduled: Any) -> Any:
    def plain(core: Any, scheduled: Any) -> AbstractContextManager[str]:
        return nullcontext("vLLM's own")

    with hastened(plain)(engine, scheduled) as details:
        return details


ONE = core(_api_process_count=1)


def test_of_a_step_in_which_all_decode_nothing_is_told() -> None:
    assert told(ONE, step()) is None


@pytest.mark.parametrize(
    "scheduled",
    [
        pytest.param(step(scheduled_new_reqs=[1]), id="a new sequence"),
        pytest.param(
            step(scheduled_cached_reqs=SimpleNamespace(num_output_tokens=[0, 70])), id="a sequence in its prompt"
        ),
        pytest.param(step(scheduled_encoder_input_stats=1), id="an image"),
        pytest.param(SimpleNamespace(), id="a scheduler of another version"),
        pytest.param(None, id="a dummy step of a data-parallel rank"),
    ],
)
def test_every_other_step_is_told_by_vllm(scheduled: Any) -> None:
    assert told(ONE, scheduled) == "vLLM's own"


@pytest.mark.parametrize(
    "engine",
    [
        pytest.param(core(_api_process_count=2), id="several API servers, none of which sees every sequence"),
        pytest.param(core(), id="a vLLM that does not say how many"),
    ],
)
def test_every_step_is_told_by_vllm_where_its_sequences_may_be_of(engine: Any) -> None:
    assert told(engine, step()) == "vLLM's own"
