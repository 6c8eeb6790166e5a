"""Our half inside vLLM's engine core: what was in a step is counted without a look at each sequence, where all decode.

The core counts it because we ask for it (`--enable-logging-iteration-details`), between two steps, when nothing else
runs: a loop over all sequences that takes longer than everything else of ours. vLLM calls `install` in each of its
processes; in those that have no core it does nothing. Standard library only (the engine's Python).
"""

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

_NAME = "compute_iteration_details"


def install() -> None:
    """Once a process; a child that is forked off later has a core that this one need not have."""
    _hasten()
    os.register_at_fork(after_in_child=_hasten)


def _hasten() -> None:
    core, kinds = sys.modules.get("vllm.v1.engine.core"), sys.modules.get("vllm.v1.utils")
    plain, details = getattr(core, _NAME, None), getattr(kinds, "IterationDetails", None)
    if plain is not None and details is not None and not hasattr(plain, "__wrapped__"):
        setattr(core, _NAME, hastened(plain, details))


def hastened(plain: Callable[[Any], Any], details: Callable[[int, int, int, int], Any]) -> Callable[[Any], Any]:
    """Says the same as vLLM's `plain`. A sequence is in its prompt if it is new or has no token yet; where none is,
    `details` makes the answer. Where a scheduler's output is not as we know it, `plain` answers."""

    @functools.wraps(plain)
    def compute_iteration_details(scheduled: Any) -> Any:
        try:
            prompt = scheduled.scheduled_new_reqs or 0 in scheduled.scheduled_cached_reqs.num_output_tokens
            if not prompt and scheduled.scheduled_encoder_input_stats is None:
                return details(0, 0, len(scheduled.num_scheduled_tokens), scheduled.total_num_scheduled_tokens)
        except AttributeError:
            pass
        return plain(scheduled)

    return compute_iteration_details
