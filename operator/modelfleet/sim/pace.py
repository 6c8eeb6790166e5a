"""The time of engine steps, tabulated from the performance model.

A step's time is a sum of terms that are linear in the contexts, so it is asked for at two contexts and interpolated in
between; prompt tokens and sequences are rounded to a grid that is finer than what the model can tell apart.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

from modelfleet.core.perf.case import Case
from modelfleet.core.perf.pace import PLAIN, Factors
from modelfleet.core.perf.steps import Batch, step_time

_PROMPT_GRID_TOKENS = 64
_FINE_SEQUENCES = 16
_COARSE_SEQUENCES = 8
_FAR_TOKENS = 4096.0


@dataclass(frozen=True, slots=True)
class Line:
    """seconds = base_s + per_context_token_s × (sum of the decoding sequences' contexts)
    + per_lookback_token_s × (tokens that the prompts look back at)."""

    base_s: float
    per_context_token_s: float
    per_lookback_token_s: float


class Pace:
    """Step times of one case, times `factor`: an engine's truth may differ from the prediction. `factors` are the
    corrections of a ModelProfile."""

    def __init__(self, case: Case, factor: float = 1.0, factors: Factors = PLAIN) -> None:
        self._case, self._factor, self._factors = case, factor, factors
        self.line = lru_cache(maxsize=None)(self._line)

    def step(self, prompt_tokens: int, sequences: int) -> Line:
        """The line of a step with so many prompt tokens beside so many decoding sequences."""
        prompt = -(-prompt_tokens // _PROMPT_GRID_TOKENS) * _PROMPT_GRID_TOKENS
        if sequences > _FINE_SEQUENCES:
            sequences = -(-sequences // _COARSE_SEQUENCES) * _COARSE_SEQUENCES
        return self.line(prompt, sequences)

    def _line(self, prompt_tokens: int, sequences: int) -> Line:
        base = self._seconds(prompt_tokens, 0.0, sequences, 0.0)
        context = self._seconds(prompt_tokens, 0.0, sequences, _FAR_TOKENS) - base if sequences else 0.0
        lookback = self._seconds(prompt_tokens, _FAR_TOKENS, sequences, 0.0) - base if prompt_tokens else 0.0
        return Line(base, context / (_FAR_TOKENS * max(sequences, 1)), lookback / _FAR_TOKENS)

    def _seconds(self, prompt: float, lookback: float, sequences: float, context: float) -> float:
        decode = Batch(decode_sequences=sequences, decode_context_tokens=context)
        batch = replace(decode, prefill_tokens=prompt, prefill_context_tokens=lookback)
        total_s = step_time(self._case, batch).total_s
        if self._factors == PLAIN:
            return total_s * self._factor
        decode_s = step_time(self._case, decode).total_s
        corrected_s = decode_s * self._factors.decode + (total_s - decode_s) * self._factors.prefill
        return corrected_s * self._factor
