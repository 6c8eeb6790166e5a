"""Cases for tests of the performance model: two known models on accelerators of the catalogue."""

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from modelfleet.core.catalog import CATALOG
from modelfleet.core.layout.shape import Layout
from modelfleet.core.model.facts import ModelFacts, Scheme
from modelfleet.core.model.known import known
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.workload import EngineSetup, Lengths


def facts(name: str) -> ModelFacts:
    found = known(name)
    assert found is not None, name
    return found


DENSE, MIXTURE = facts("Llama-3.1-8B"), facts("Qwen3-30B-A3B")
LENGTHS = Lengths(input_tokens=1000, output_tokens=250)
SETUP = EngineSetup(version="0.19.0", context_limit_tokens=16384)


def case(model: ModelFacts = DENSE, accelerator: str = "h100-sxm", layout: Layout | None = None, **setup: Any) -> Case:
    return Case(
        facts=model,
        hardware=CATALOG[accelerator].hardware,
        layout=layout or Layout(),
        setup=replace(SETUP, **setup),
    )


CASES = st.builds(
    case,
    model=st.sampled_from([DENSE, MIXTURE]),
    accelerator=st.sampled_from(["h100-sxm", "b200", "a100-80", "mi300x"]),
    layout=st.sampled_from([Layout(1), Layout(4), Layout(2, 2), Layout(8)]),
    engine=st.sampled_from(["vllm", "sglang", "trtllm"]),
    weights=st.sampled_from([Scheme.BF16, Scheme.FP8, Scheme.INT4]),
)
REGIMES = st.builds(
    Lengths,
    input_tokens=st.floats(16, 12000),
    output_tokens=st.floats(1, 4000),
    shared_prefix_tokens=st.sampled_from([0.0, 16.0]),
)
LOADS = st.floats(0.01, 3000)
