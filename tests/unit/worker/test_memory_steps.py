"""The settings in a plan's arguments, and the step that is proposed when one of them was to blame."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelfleet_worker.engine_settings import engine_settings
from modelfleet_worker.memory_steps import FRACTION_STEP, lower_budget, lower_memory, lower_tokens

GIB = 1 << 30


@pytest.mark.parametrize(
    ("args", "field", "value"),
    [
        pytest.param([], "fraction", 0.92, id="the engine's own share"),
        pytest.param(["--gpu-memory-utilization=0.85"], "fraction", 0.85, id="a share"),
        pytest.param(["--gpu_memory_utilization=0.85"], "fraction", 0.85, id="underscores are dashes to vLLM"),
        pytest.param(["--gpu-memory-utilization=much"], "fraction", 0.92, id="no number is not given"),
        pytest.param(["--kv-cache-memory-bytes=64M"], "kv_bytes", 64 << 20, id="a capital M is 1024 times 1024"),
        pytest.param(["--kv-cache-memory-bytes=64m"], "kv_bytes", 64_000_000, id="a small m is a million"),
        pytest.param(["--kv-cache-memory=1.5G"], "kv_bytes", 3 << 29, id="the other name, a part of a unit"),
        pytest.param(["--max-num-batched-tokens=8192"], "budget_tokens", 8192, id="tokens of a step"),
        pytest.param(["--long-prefill-token-threshold=1k"], "threshold_tokens", 1000, id="of one prompt in it"),
        pytest.param(["--max-model-len=-1"], "context_tokens", None, id="what the engine finds itself"),
        pytest.param(["--no-enable-chunked-prefill"], "chunked", False, id="no chunks"),
        pytest.param(["--tensor-parallel-size=4", "--data-parallel-size=2"], "devices", 8, id="accelerators"),
        pytest.param(["positional", "--enforce-eager"], "devices", 1, id="switches and others"),
    ],
)
def test_settings(args, field, value):
    assert getattr(engine_settings(args), field) == value


@pytest.mark.parametrize(
    ("args", "sizes", "value"),
    [
        pytest.param(["--gpu-memory-utilization=0.99"], (79, 78, 80), "0.96", id="to what is free, less one hundredth"),
        pytest.param(["--gpu-memory-utilization=0.95"], (76, 40, 80), "0.85", id="never more than a tenth at once"),
        pytest.param([], (74, 73, 80), "0.90", id="the engine's own share is lowered too"),
        pytest.param(["--gpu-memory-utilization=0.9"], (0, 0, 0), "0.87", id="a small step where nothing tells"),
        pytest.param(["--gpu-memory-utilization=0.55"], (44, 4, 80), "0.50", id="not below a half"),
        pytest.param(["--gpu-memory-utilization=0.5"], (40, 4, 80), None, id="a half is the end"),
        pytest.param(["--kv-cache-memory-bytes=8G"], (8, 7, 80), str(int(6.2 * 1024) << 20), id="a smaller cache"),
        pytest.param(["--kv-cache-memory-bytes=8G"], (8, 1, 80), str(6 << 30), id="a quarter less at once"),
        pytest.param(["--kv-cache-memory-bytes=16M"], (0, 0, 0), None, id="16 MiB is the end"),
    ],
)
def test_less_memory(args, sizes, value):
    found = lower_memory(engine_settings(args), *(size * GIB for size in sizes))
    assert (found.value if found else None) == value


@pytest.mark.parametrize(
    ("args", "default", "value"),
    [
        pytest.param(["--max-num-batched-tokens=8192"], None, "4096", id="half of a step's tokens"),
        pytest.param([], 2048, "1024", id="of those that the engine said it uses"),
        pytest.param([], None, None, id="of what is not known nothing can be said"),
        pytest.param(["--long-prefill-token-threshold=600"], 2048, "300", id="half of the threshold"),
        pytest.param(["--long-prefill-token-threshold=256"], 2048, None, id="256 is the end"),
        pytest.param(["--no-enable-chunked-prefill"], 8192, None, id="without chunks it has no effect"),
    ],
)
def test_fewer_tokens_of_one_prompt(args, default, value):
    found = lower_tokens(engine_settings(args), default)
    assert (found.value if found else None) == value


@pytest.mark.parametrize(
    ("args", "value"),
    [
        pytest.param(["--max-num-batched-tokens=8192"], "4096", id="half"),
        pytest.param(["--max-num-batched-tokens=1024", "--max-num-seqs=768"], "768", id="each sequence has a token"),
        pytest.param(["--max-num-batched-tokens=512", "--max-num-seqs=512"], None, id="no room to fall"),
    ],
)
def test_fewer_tokens_of_a_step(args, value):
    found = lower_budget(engine_settings(args), None)
    assert (found.value if found else None) == value


@given(now=st.floats(0.5, 1.0), free=st.floats(0, 80), total=st.floats(1, 80))
def test_a_share_only_falls_and_by_a_bounded_step(now, free, total):
    settings = engine_settings([f"--gpu-memory-utilization={now:.4f}"])
    found = lower_memory(settings, int(now * total * GIB), int(free * GIB), int(total * GIB))
    if found is not None:
        assert settings.fraction - FRACTION_STEP - 1e-6 <= float(found.value) < settings.fraction
