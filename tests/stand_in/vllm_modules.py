"""vLLM's module names that a stat-logger plugin imports, and the loading of such plugins as vLLM does it."""

import sys
from importlib.metadata import entry_points
from types import ModuleType, SimpleNamespace
from typing import Any

_GROUP = "vllm.stat_logger_plugins"


class StatLoggerBase:
    def record(
        self, scheduler_stats: Any, iteration_stats: Any, mm_cache_stats: Any = None, engine_idx: int = 0
    ) -> None:
        """Called after each step."""

    def log_engine_initialized(self) -> None:
        """Called once the cache is sized."""


class AggregateStatLoggerBase(StatLoggerBase):
    def record_admission_rejection(self, reason: str) -> None:
        """Called in the context of the request that is refused."""


class IterationStats:
    """What a step brought."""

    def __init__(self) -> None:
        self.num_generation_tokens = 0
        self.num_preempted_reqs = 0
        self.prompt_token_stats = SimpleNamespace(total=0)
        self.inter_token_latencies_iter: list[float] = []

    def update_from_finished_request(self, **_: Any) -> None:
        """Called for each sequence that finished in the step."""


class RequestState:
    """vLLM's notes of a sequence for its output."""

    lora_name = None

    def __init__(self, request: Any) -> None:
        self._request = request
        self.stats, self.prompt_len = request.notes, len(request.prompt)
        self.prompt_token_ids = list(request.prompt)
        self.detokenizer = self

    @property
    def output_token_ids(self) -> list[Any]:
        return list(self._request.tokens[self.prompt_len :])

    @property
    def num_cached_tokens(self) -> int:
        cached: int = self._request.cached
        return cached


class OutputProcessor:
    """Knows the sequences that are in the engine."""

    def __init__(self) -> None:
        self.request_states: dict[str, Any] = {}

    def add_request(self, request: Any, *_: Any) -> None:
        """Called in the context of the request."""
        self.request_states[request.request_id] = RequestState(request)

    def propagate_error(self, error: Exception) -> None:
        """Called when the engine died, before its sequences are told."""


_MODULES = {
    "vllm": {},
    "vllm.v1": {},
    "vllm.v1.engine": {},
    "vllm.v1.engine.output_processor": {"OutputProcessor": OutputProcessor},
    "vllm.v1.metrics": {},
    "vllm.v1.metrics.loggers": {
        "StatLoggerBase": StatLoggerBase,
        "AggregateStatLoggerBase": AggregateStatLoggerBase,
    },
    "vllm.v1.metrics.stats": {"IterationStats": IterationStats},
}


def stat_loggers(kv_tokens: int, model: str) -> list[Any]:
    """One of each plugin class. Raises TypeError for a plugin that is none, as vLLM does."""
    for name, content in _MODULES.items():
        module = ModuleType(name)
        module.__path__ = []  # importing below it works
        vars(module).update(content)
        sys.modules[name] = module
    cache = SimpleNamespace(kv_cache_size_tokens=kv_tokens, num_gpu_blocks=0, block_size=0)
    config = SimpleNamespace(cache_config=cache, model_config=SimpleNamespace(model=model), additional_config={})
    loggers = [_made(entry.load(), config) for entry in entry_points(group=_GROUP)]
    for logger in loggers:
        logger.log_engine_initialized()
    return loggers


def _made(plugin: Any, config: Any) -> Any:
    if not (isinstance(plugin, type) and issubclass(plugin, StatLoggerBase)):
        raise TypeError(f"Stat logger plugin {plugin!r} must be a subclass of StatLoggerBase.")
    return plugin(config, [0]) if issubclass(plugin, AggregateStatLoggerBase) else plugin(config, 0)
