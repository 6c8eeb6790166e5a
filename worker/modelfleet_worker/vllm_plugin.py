"""Our half inside vLLM, in each API-server process: a stat logger that counts steps, and hooks that hand a request's
own numbers to the gate. Found through the entry point that `engine_code.py` writes. The only module that imports vLLM.

vLLM's stat loggers learn of a request when it has finished, by an id that a client may choose and repeat, without its
time to first token, and never of one that was refused or dropped. So the engine's own notes of a sequence are taken
where it begins and where it finishes, in the context of the request (`ledger.py`).
"""

import functools
import os
import weakref
from pathlib import Path
from typing import Any

from vllm.v1.engine.output_processor import OutputProcessor
from vllm.v1.metrics.loggers import AggregateStatLoggerBase
from vllm.v1.metrics.stats import IterationStats

from modelfleet_worker import hold, ledger
from modelfleet_worker.engine_counts import EngineCounts
from modelfleet_worker.gate_state import FOLDER_VARIABLE
from modelfleet_worker.recent_inputs import RecentInputs
from modelfleet_worker.vllm_core import one_api_server


class GoodputStatLogger(AggregateStatLoggerBase):  # type: ignore[misc]  # vLLM is in the engine's Python alone
    """Counts steps for all engines of one API server. vLLM makes it once in each."""

    def __init__(self, vllm_config: Any, engine_indexes: list[int]) -> None:
        self._config = vllm_config
        folder = Path(os.environ[FOLDER_VARIABLE])
        by_sums = one_api_server(vllm_config)
        self._engines = {index: EngineCounts(folder, index, by_sums=by_sums) for index in engine_indexes}
        _hook()

    def log_engine_initialized(self) -> None:
        """The engine's size is known."""
        cache = self._config.cache_config
        tokens = getattr(cache, "kv_cache_size_tokens", None) or (cache.num_gpu_blocks or 0) * (cache.block_size or 0)
        for counts in self._engines.values():
            counts.sized(tokens)

    def record(
        self, scheduler_stats: Any, iteration_stats: Any, mm_cache_stats: Any = None, engine_idx: int = 0
    ) -> None:
        """One step of an engine."""
        counts = self._engines.get(engine_idx)
        if counts is not None:
            counts.record(scheduler_stats, iteration_stats)

    def record_admission_rejection(self, reason: str) -> None:
        """The engine refuses the request in whose context this runs."""
        ledger.refused()


def _hook() -> None:
    """Once a process: from now on the ledger hears of sequences. Raises AttributeError in a vLLM that differs."""
    if hasattr(OutputProcessor.add_request, "__wrapped__"):
        return
    add, finish = OutputProcessor.add_request, IterationStats.update_from_finished_request
    fail = OutputProcessor.propagate_error
    recent = RecentInputs(Path(os.environ[FOLDER_VARIABLE]))

    @functools.wraps(add)
    def add_request(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        result = add(self, request, *args, **kwargs)
        state = self.request_states.get(request.request_id)
        if state is not None and state.stats is not None:
            ledger.sequence_added(state.stats, state.prompt_len)
            _note(recent, request, state)
            hold.added(request, state)
        return result

    @functools.wraps(finish)
    def update_from_finished_request(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = finish(self, *args, **kwargs)
        ledger.sequence_finished(kwargs["req_stats"], str(kwargs["finish_reason"]))
        return result

    @functools.wraps(fail)
    def propagate_error(self: Any, error: Exception) -> Any:
        recent.freeze()  # the engine died: what is open now is what it was working on
        return fail(self, error)

    OutputProcessor.add_request = add_request
    OutputProcessor.propagate_error = propagate_error
    IterationStats.update_from_finished_request = update_from_finished_request


def _note(recent: RecentInputs, request: Any, state: Any) -> None:
    """Keeps what a death is explained with. The engine drops its notes of a sequence however that ends."""
    wanted = request.sampling_params
    recent.began(
        id(state.stats),
        state.prompt_len,
        logprobs=wanted is not None and wanted.prompt_logprobs is not None,
        media=bool(request.mm_features),
    )
    weakref.finalize(state.stats, recent.ended, id(state.stats))
