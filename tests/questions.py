"""Questions to the planner for tests: known models, a few accelerators with round figures, a promise to vary."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

from modelfleet.core.hardware import Hardware
from modelfleet.core.layout.question import Candidate, LengthRegime, NodeRoom, Objective, Question, Variant
from modelfleet.core.model.facts import ModelFacts, Scheme
from modelfleet.core.model.known import known

GIB = 1024**3

LARGE = Hardware(
    name="large",
    memory_bytes=80 * GIB,
    memory_bytes_per_s=3.35e12,
    flops={"bf16": 989e12, "fp8": 1979e12, "int8": 1979e12},
    compute_capability=(9, 0),
    accelerators_per_node=8,
    domain=8,
    fabric_bytes_per_s=450e9,
    network_bytes_per_s=50e9,
    price_per_hour=Decimal("6.88"),
)
"""Of an H100's size."""

SMALL = Hardware(
    name="small",
    memory_bytes=22 * GIB,
    memory_bytes_per_s=300e9,
    flops={"bf16": 121e12, "fp8": 242e12, "int8": 242e12},
    compute_capability=(8, 9),
    accelerators_per_node=4,
    domain=1,
    fabric_bytes_per_s=32e9,
    network_bytes_per_s=3e9,
    price_per_hour=Decimal("0.80"),
)
"""Of an L4's size: no fabric but PCIe."""


def facts(name: str) -> ModelFacts:
    found = known(name)
    assert found is not None, name
    return found


def variants(name: str, *schemes: Scheme) -> tuple[Variant, ...]:
    return tuple(
        Variant(weights=one, source=f"pvc://models/{name}-{one}", facts=facts(name))
        for one in schemes or (Scheme.BF16,)
    )


def on(hardware: Hardware, **changes: Any) -> Candidate:
    return Candidate(name=hardware.name, hardware=hardware, **changes)


def nodes(count: int, each: int, free: int | None = None) -> tuple[NodeRoom, ...]:
    return tuple(
        NodeRoom(name=f"node-{index}", total=each, free=each if free is None else free) for index in range(count)
    )


LENGTHS = LengthRegime(input_p50_tokens=900, input_p95_tokens=4000, output_p50_tokens=250, output_p95_tokens=800)


def objective(**changes: Any) -> Objective:
    """ttft 1 s and tpot 100 ms for 99 % at 2 requests/s; lengths may be changed by their own names."""
    lengths = {key: changes.pop(key) for key in list(changes) if key.endswith("_tokens")}
    if "load_concurrency" in changes:
        changes.setdefault("load_rps", None)
    base = Objective(name="chat", ttft_s=1.0, tpot_s=0.1, load_rps=2.0, lengths=replace(LENGTHS, **lengths))
    return replace(base, **changes)


def question(**changes: Any) -> Question:
    """Llama-3.1-8B in bf16 on one class of large accelerators."""
    values: dict[str, Any] = {
        "variants": variants("Llama-3.1-8B-Instruct"),
        "candidates": (on(LARGE),),
        "objectives": (objective(),),
        "max_context_tokens": 16384,
        "engine_version": "0.32.0",
    }
    return Question(**(values | changes))
