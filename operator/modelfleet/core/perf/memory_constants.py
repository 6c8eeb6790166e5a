"""The few constants of the memory model: what was fitted, on what, and by which command. Pure."""

from dataclasses import dataclass

GIB = 2**30


@dataclass(frozen=True, kw_only=True)
class MemoryConstants:
    """Fitted on what engines reported, by tests/benchmarks/planner/kv_fit.py: each is a median over rows.
    `make bench-planner` prints how well they hold where they were not fitted.

    Copies count float32 values of sequence cap × vocabulary that the sampler holds at its peak, before vLLM 0.16 and
    since. The rest are bytes of one accelerator: what the driver, the allocator and the communication library hold.
    """

    copies_before: float = 9.46
    copies_since: float = 3.63
    one_uncut_bytes: float = 0.36 * GIB
    """Without tensor parallelism, before 0.8."""
    one_bytes: float = 0.14 * GIB
    """The same from 0.8 to 0.14."""
    one_since_bytes: float = 0.49 * GIB
    """The same since 0.15."""
    group_bytes: float = 0.61 * GIB
    """With tensor parallelism, before 0.16 or over PCIe."""
    vision_bytes: float = 0.87 * GIB
    """With a vision tower: the largest picture that the engine reserves for while it profiles itself."""
    graph_bytes_a_layer: float = 0.011 * GIB
    """CUDA graphs, inside the budget since 0.21."""


CONSTANTS = MemoryConstants()

FABRIC_GROUP_BYTES = 2.1 * GIB
"""With tensor parallelism over a fabric since 0.16: llm-d-planner's measurement on vLLM 0.19 and H100
(non_torch_overhead of tpN_pp1), all-reduce workspaces included."""
HIDDEN_COPIES = 2
"""The hidden states and the residual of all tokens live on while the sampler runs."""
EXPERT_CHUNK_TOKENS = 32768
"""Experts take at most so many tokens at once (VLLM_FUSED_MOE_CHUNK_SIZE)."""
FABRIC_BYTES_PER_S = 100e9
"""Above it accelerators are joined by a fabric, below by PCIe."""
