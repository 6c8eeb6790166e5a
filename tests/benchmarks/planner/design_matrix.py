"""The performance model's own terms of every measured row as matrices, and its two formulas over them, for the fit.

The formulas are those of `modelfleet.core.perf.pace`; `check` proves that both give the same times.
"""

from collections.abc import Sequence
from dataclasses import astuple, fields, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.planner.rows import Measured
from modelfleet.core.perf.constants import NAMES
from modelfleet.core.perf.pace import held_tokens, prompts_at_once, token_budget
from modelfleet.core.perf.terms import Batch, Terms, step_terms

Array = NDArray[np.float64]
TERMS = tuple(field.name for field in fields(Terms))
COLUMN = {name: index for index, name in enumerate(NAMES)}


class Matrix:
    """One line a row, one column a constant: decode steps, prompts, and what scales them."""

    def __init__(self, rows: Sequence[Measured]) -> None:
        self.rows = list(rows)
        self.decode = np.zeros((len(rows), len(NAMES)))
        self.prompt = np.zeros((len(rows), len(NAMES)))
        for line, row in enumerate(rows):
            self._fill(line, row)
        running = np.array([row.concurrency for row in rows])
        at_once = np.array([prompts_at_once(row.case.layout) for row in rows])
        self.prompts_a_step = running / np.array([row.lengths.output_tokens for row in rows]) / at_once
        ranks = np.array([row.case.layout.data for row in rows])
        self.crowd = np.maximum(running - 1, 0) / 2 / np.sqrt(ranks)
        self.ranked = (ranks > 1).astype(float)
        self.chunks = np.array([_chunks(row) for row in rows])
        self.ttft = np.array([row.ttft_s for row in rows])
        self.tpot = np.array([row.tpot_s for row in rows])

    def _fill(self, line: int, row: Measured) -> None:
        batch = row.concurrency / row.case.layout.pipeline
        alone = Batch(decode_sequences=batch, decode_context_tokens=held_tokens(row.lengths))
        mixed = replace(alone, prefill_tokens=row.lengths.input_tokens)
        first, both = (astuple(step_terms(row.case, each)) for each in (alone, mixed))
        for index, name in enumerate(TERMS):
            self.decode[line, COLUMN[name]] = first[index]
            self.prompt[line, COLUMN[name]] = both[index] - first[index]
        self.decode[line, COLUMN["step_s"]] = 1.0
        self.prompt[line, COLUMN["prompt_layer_s"]] = row.case.facts.layers * _chunks(row)

    def times(self, constants: Array, lines: NDArray[np.int64]) -> tuple[Array, Array, Array, Array]:
        """TTFT and TPOT of some lines, and the derivatives of their logarithms by those of the constants."""
        decode, prompt = self.decode[lines] * constants, self.prompt[lines] * constants
        often = self.prompts_a_step[lines][:, None]
        balanced = constants[:, COLUMN["rank_steps"]] * self.ranked[lines]
        waited = (constants[:, COLUMN["wait_steps"]] + self.chunks[lines] - 1 + balanced)[:, None]
        crowd = (constants[:, COLUMN["burst"]] * self.crowd[lines])[:, None]
        step = decode + often * prompt
        first = waited * decode + (1 + crowd) * prompt
        decode_s, prompt_s = decode.sum(1), prompt.sum(1)
        tpot, ttft = step.sum(1), first.sum(1) + constants[:, COLUMN["prompt_s"]]
        first[:, COLUMN["prompt_s"]] += constants[:, COLUMN["prompt_s"]]
        first[:, COLUMN["wait_steps"]] += constants[:, COLUMN["wait_steps"]] * decode_s
        first[:, COLUMN["rank_steps"]] += balanced * decode_s
        first[:, COLUMN["burst"]] += crowd[:, 0] * prompt_s
        return ttft, tpot, first / ttft[:, None], step / tpot[:, None]


def _chunks(row: Measured) -> float:
    return max(row.lengths.input_tokens / token_budget(row.case), 1.0)
