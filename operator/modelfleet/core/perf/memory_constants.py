"""The few constants of the memory model: what was fitted, on what, and by which command. Pure."""

from dataclasses import dataclass

GIB = 2**30


@dataclass(frozen=True, kw_only=True)
class MemoryConstants:
    """Fitted on what engines reported; `make bench-planner` prints the fit and how well it holds elsewhere.

    Copies count float32 values of sequence cap × vocabulary that the sampler holds at its peak, before vLLM 0.16 and
    since. The rest are bytes of one accelerator: what the driver, the allocator and the communication library hold.
    """

    copies_before: float = 9.5
    copies_since: float = 3.6
    one_bytes: float = 0.40 * GIB
    """Without tensor parallelism."""
    group_bytes: float = 0.65 * GIB
    """With it, before 0.16 or over PCIe."""


CONSTANTS = MemoryConstants()

FABRIC_GROUP_BYTES = 2.1 * GIB
"""With tensor parallelism over a fabric since 0.16: llm-d-planner's measurement on vLLM 0.19 and H100
(non_torch_overhead of tpN_pp1), all-reduce workspaces included."""
GRAPH_BYTES_A_LAYER = 0.018 * GIB
"""CUDA graphs, counted in the budget since 0.21: 0.68 GiB reported for the 36 layers of Qwen3-8B on an RTX 4090."""
HIDDEN_COPIES = 2
"""The hidden states and the residual of all tokens live on while the sampler runs."""
EXPERT_CHUNK_TOKENS = 32768
"""Experts take at most so many tokens at once (VLLM_FUSED_MOE_CHUNK_SIZE)."""
FABRIC_BYTES_PER_S = 100e9
"""Above it accelerators are joined by a fabric, below by PCIe."""
