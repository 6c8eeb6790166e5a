"""The bounded step that a worker proposes after a death that its own settings are to blame for. Pure.

A step only ever lowers a setting, by a bounded amount. The operator decides whether it is taken (docs/memory.md).
"""

import math
from dataclasses import dataclass

from modelfleet_worker.engine_settings import BUDGET, FRACTION, KV_BYTES, THRESHOLD, EngineSettings

FRACTION_STEP = 0.10
"""A fraction falls by at most this at once."""

_FRACTION_SMALL_STEP = 0.03  # where nothing tells how much is missing: 2.4 GB of an 80 GB device
_LOWEST_FRACTION = 0.50
_KV_STEP = 0.25  # of the KV cache's bytes, at most, at once
_LOWEST_KV_BYTES = 16 << 20
_LOWEST_TOKENS = 256
_SPARE = 0.01  # of the memory, left beside what is free: the free part moves by itself
_KV_UNIT_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Correction:
    """An engine flag without dashes, and the value that it should have instead of `before` (as the engine writes it;
    empty where the plan leaves it to the engine)."""

    flag: str
    value: str
    before: str

    @property
    def words(self) -> str:
        """As a part of a sentence."""
        return f"{self.flag} {self.value} instead of {self.before or 'its default'}"


def lower_memory(
    settings: EngineSettings, wanted_bytes: int = 0, free_bytes: int = 0, total_bytes: int = 0
) -> Correction | None:
    """A smaller share of the memory, or a smaller KV cache where the plan says its bytes. With the three sizes the step
    goes to what is free, else it is a small one. None where the lowest is reached."""
    if settings.kv_bytes is not None:
        return _lower_kv(settings.kv_bytes, free_bytes - math.ceil(_SPARE * total_bytes) if wanted_bytes else None)
    now = settings.fraction
    fits = free_bytes / total_bytes - _SPARE if wanted_bytes and total_bytes else now - _FRACTION_SMALL_STEP
    lowered = max(_down(min(fits, now - 0.01)), _up(now - FRACTION_STEP), _LOWEST_FRACTION)
    if lowered >= now:
        return None
    return Correction(flag=FRACTION, value=f"{lowered:.2f}", before=f"{now:g}")


def lower_tokens(settings: EngineSettings, default_budget: int | None) -> Correction | None:
    """Half of the tokens of one long prompt in a step. `default_budget` is what the engine said it uses where the plan
    leaves it open. None where the lowest is reached, or the budget is not known."""
    budget = settings.budget_tokens or default_budget
    if budget is None or not settings.chunked:
        return None
    now = min(settings.threshold_tokens or budget, budget)
    lowered = max(now // 2, _LOWEST_TOKENS)
    if lowered >= now:
        return None
    return Correction(flag=THRESHOLD, value=str(lowered), before=str(settings.threshold_tokens or ""))


def lower_budget(settings: EngineSettings, default_budget: int | None) -> Correction | None:
    """Half of the tokens of a step, not below the sequences that it must hold."""
    budget = settings.budget_tokens or default_budget
    if budget is None or not settings.chunked:
        return None
    lowered = max(budget // 2, _LOWEST_TOKENS, settings.sequences or 0)
    if lowered >= budget:
        return None
    return Correction(flag=BUDGET, value=str(lowered), before=str(settings.budget_tokens or ""))


def _lower_kv(now: int, fits: int | None) -> Correction | None:
    least = math.ceil(now * (1 - _KV_STEP))
    lowered = max(min(fits, now - 1) if fits is not None else least, least, _LOWEST_KV_BYTES)
    lowered = lowered // _KV_UNIT_BYTES * _KV_UNIT_BYTES
    if lowered >= now or not lowered:
        return None
    return Correction(flag=KV_BYTES, value=str(lowered), before=str(now))


def _down(fraction: float) -> float:
    """Two decimals, rounded down; the small addition keeps 0.89 from becoming 0.88 by its binary form."""
    return math.floor(fraction * 100 + 1e-6) / 100


def _up(fraction: float) -> float:
    """Two decimals, rounded up, so that no step is larger than it may be."""
    return math.ceil(fraction * 100 - 1e-6) / 100
