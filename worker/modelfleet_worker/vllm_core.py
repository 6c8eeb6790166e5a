"""Our half inside vLLM's engine core: where all sequences decode, a step is left without a note of what was in it.

vLLM makes that note because we ask for it (`--enable-logging-iteration-details`), with a loop over all sequences and a
message that grows, between two steps, when nothing else runs: longer than everything else of ours. Where one API server
is told of every step, it knows such a step by the tokens that come of it. vLLM calls `install` in each of its
processes; in those that have no core it does nothing. Standard library only (the engine's Python).
"""

import functools
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

_NAME = "capture_iteration_details"


def install() -> None:
    """Once a process; a child that is forked off later has a core that this one need not have."""
    _hasten()
    os.register_at_fork(after_in_child=_hasten)


def _hasten() -> None:
    core = getattr(sys.modules.get("vllm.v1.engine.core"), "EngineCore", None)
    plain = getattr(core, _NAME, None)
    if plain is not None and plain.__module__ != __name__:
        setattr(core, _NAME, hastened(plain))


def one_api_server(config: Any) -> bool:
    """Whether every step is told to the same API server. False for a vLLM that does not say."""
    return getattr(getattr(config, "parallel_config", None), "_api_process_count", 0) == 1


def hastened(plain: Callable[[Any, Any], AbstractContextManager[Any]]) -> Callable[[Any, Any], Any]:
    """vLLM's `plain`, a method of its core, but for steps in which all sequences decode. A sequence is in its prompt if
    it is new or has no token yet. Where a scheduler's output is not as we know it, `plain` answers."""
    nothing = nullcontext()

    @functools.wraps(plain)
    def capture_iteration_details(core: Any, scheduled: Any) -> Any:
        if scheduled is not None and one_api_server(core.vllm_config) and _decodes(scheduled):
            return nothing
        return plain(core, scheduled)

    capture_iteration_details.__module__ = __name__
    return capture_iteration_details


def _decodes(scheduled: Any) -> bool:
    try:
        prompt = scheduled.scheduled_new_reqs or 0 in scheduled.scheduled_cached_reqs.num_output_tokens
        return not prompt and scheduled.scheduled_encoder_input_stats is None
    except AttributeError:
        return False
