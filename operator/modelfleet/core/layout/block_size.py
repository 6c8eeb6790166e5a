"""The KV cache's block size (rule 3). Pure.

A large block has a shorter table to keep and to read; a small one wastes less at the end of each sequence (half a block
on average) and shares more of a common prefix (only whole blocks are shared).
"""

from __future__ import annotations

from modelfleet.core.hardware import Hardware
from modelfleet.core.layout.answer import Check, Reason
from modelfleet.core.layout.question import Question, place
from modelfleet.core.layout.wording import percent
from modelfleet.core.model.facts import Attention, ModelFacts
from modelfleet.core.perf.workload import Lengths

_MOST_WASTE = 0.01
"""Share of the cache lost at sequences' ends, and of the common prefix, that a longer block may cost."""


def allowed_blocks(facts: ModelFacts, hardware: Hardware) -> tuple[int, ...]:
    """Block sizes that the attention backend takes: multiples of 16, fixed for MLA by its kernel (FlashMLA 64, CUTLASS
    MLA 128; vLLM's backends)."""
    if any(part.kind in (Attention.LATENT, Attention.LATENT_SPARSE) for part in facts.attention):
        blackwell = hardware.compute_capability is not None and hardware.compute_capability >= (10, 0)
        return (128,) if blackwell else (64,)
    return (16, 32, 64, 128)


def decide_block(question: Question, facts: ModelFacts, hardware: Hardware, lengths: Lengths) -> tuple[int, Reason]:
    """The block size in tokens and why."""
    pinned = question.pins.block_tokens
    if pinned is not None:
        sentence = f"{pinned} tokens a block, as {place(question, 'pins.block_tokens')} says"
        return pinned, Reason(check=Check.BLOCK_SIZE, sentence=sentence)
    allowed = allowed_blocks(facts, hardware)
    context = max(1.0, lengths.input_tokens + lengths.output_tokens / 2)
    fitting = [block for block in allowed if _waste(block, context, lengths.shared_prefix_tokens) <= _MOST_WASTE]
    block = max(fitting, default=allowed[0])
    waste = percent(block / 2 / context)
    if len(allowed) == 1:
        why = f"the only size of the latent-attention kernel on this chip; sequences' ends waste {waste} of the cache"
    elif lengths.shared_prefix_tokens:
        shared = int(lengths.shared_prefix_tokens // block * block)
        why = (
            f"sequences' ends waste {waste} of the cache, and {shared} of the {lengths.shared_prefix_tokens:g} tokens"
            " of the common prefix are whole blocks"
        )
    else:
        why = f"sequences' ends waste {waste} of the cache at a mean context of {context:,.0f} tokens"
    return block, Reason(check=Check.BLOCK_SIZE, sentence=f"{block} tokens a block: {why}")


def _waste(block: int, context: float, prefix: float) -> float:
    unshared = (prefix % block) / prefix if prefix else 0.0
    return max(block / 2 / context, unshared)
