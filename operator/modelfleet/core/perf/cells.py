"""Steps that an engine took, by their composition, and the corrections that bring predictions nearest to them. Pure.

A worker counts steps in cells: so many sequences that decode, so many prompt tokens (docs/metrics.md). A cell's mean
composition is known exactly, so each cell is one measured point of the step-time curve:

    time = decode part of the batch × decode + what its prompt tokens add × prefill
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from statistics import median

from modelfleet.core.perf.case import Case
from modelfleet.core.perf.pace import Course, Factors, Pace, course, held_tokens, pace
from modelfleet.core.perf.profile import Profile, Seen, calibrate_paces, widths_left
from modelfleet.core.perf.steps import Batch, step_time
from modelfleet.core.perf.workload import Lengths

ANY = "any"
"""In place of an edge: cells that were put together."""
_MOST_LOG = 4.6
"""Factors from 0.01 to 99: steps that were counted are no guess, and a CPU's are a hundred times a GPU's."""
_LEAST_OVERHEAD, _MOST_OVERHEAD = 0.05, 20.0

Composition = tuple[str, str]
"""A cell's upper edges, as the worker's page labels them: decode and prefill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Steps of like composition: how many, their time, and the sums of what was in them."""

    steps: float = 0.0
    seconds: float = 0.0
    decode_sequences: float = 0.0
    prefill_tokens: float = 0.0

    def __sub__(self, other: "Cell") -> "Cell":
        return Cell(
            steps=self.steps - other.steps,
            seconds=self.seconds - other.seconds,
            decode_sequences=self.decode_sequences - other.decode_sequences,
            prefill_tokens=self.prefill_tokens - other.prefill_tokens,
        )

    def __add__(self, other: "Cell") -> "Cell":
        return Cell(
            steps=self.steps + other.steps,
            seconds=self.seconds + other.seconds,
            decode_sequences=self.decode_sequences + other.decode_sequences,
            prefill_tokens=self.prefill_tokens + other.prefill_tokens,
        )

    @property
    def mean_s(self) -> float:
        """A step's mean time."""
        return self.seconds / self.steps

    @property
    def sequences(self) -> float:
        """Sequences that decode in a mean step."""
        return self.decode_sequences / self.steps

    @property
    def tokens(self) -> float:
        """Prompt tokens in a mean step."""
        return self.prefill_tokens / self.steps


Cells = Mapping[Composition, Cell]


@dataclass(frozen=True, kw_only=True)
class Light:
    """Requests that hardly waited for each other: their mean TTFT with so many running."""

    running: float
    ttft_s: float


def since(before: Cells, after: Cells) -> Cells:
    """The steps between two pages; all of `after` where the engine began anew in between."""
    changes = {each: cell - before.get(each, Cell()) for each, cell in after.items()}
    fell = any(change.steps < 0 for change in changes.values()) or before.keys() - after.keys()
    return dict(after) if fell else {each: change for each, change in changes.items() if change.steps > 0}


def pooled(cells: Cells, least_steps: float) -> Cells:
    """Of one engine: cells with fewer steps than `least_steps` are put together with others of as many prompt tokens. A
    mean of steps is a point of the curve too, which is linear in what a step has but for experts."""
    found: dict[Composition, Cell] = {}
    for (decode, prefill), cell in cells.items():
        key = (decode if cell.steps >= least_steps else ANY, prefill)
        found[key] = found.get(key, Cell()) + cell
    return {each: cell for each, cell in found.items() if cell.steps >= least_steps}


def common(replicas: Sequence[Cells], least_steps: float) -> Cells:
    """What replicas have in common: by composition the replica of median step time stands for all, so that one that is
    slow moves nothing; `steps` are those of all. Cells with fewer steps than `least_steps` tell nothing."""
    found: dict[Composition, Cell] = {}
    for each in sorted({each for cells in replicas for each in cells}):
        known = [cells[each] for cells in replicas if each in cells and cells[each].steps >= least_steps]
        if not known:
            continue
        middle = median(cell.mean_s for cell in known)
        typical = min(known, key=lambda cell: abs(cell.mean_s - middle))
        times = sum(cell.steps for cell in known) / typical.steps
        found[each] = Cell(
            steps=typical.steps * times,
            seconds=typical.seconds * times,
            decode_sequences=typical.decode_sequences * times,
            prefill_tokens=typical.prefill_tokens * times,
        )
    return found


def fit(case: Case, lengths: Lengths, cells: Cells, light: Iterable[Light] = ()) -> Profile | None:
    """The corrections, with the steps behind each; None without a cell that says anything."""
    curve = course(case, lengths)
    points = [cell for cell in cells.values() if cell.steps > 0 and cell.seconds > 0 and _works(cell)]
    if not points:
        return None
    paces = [_seen(case, curve, lengths, cell) for cell in points]
    profile = calibrate_paces(paces, most_log=_MOST_LOG)
    first = [(replace(pace(case, lengths, each.running), ahead=0.0), each.ttft_s, None) for each in light]
    profile = replace(profile, overhead=_overhead(first, profile.factors))
    return replace(
        profile,
        prefill_samples=round(sum(cell.steps for cell in points if cell.prefill_tokens)),
        decode_samples=round(sum(cell.steps for cell in points if cell.decode_sequences)),
        uncertainty=widths_left([*paces, *first], profile.factors),
    )


def _overhead(first: Sequence[Seen], factors: Factors) -> float:
    """What brings first tokens nearest once steps are right: the steps' curve is measured better than by them. The mean
    of logarithms, with one more that says 1."""
    logarithms = [0.0]
    for now, ttft_s, _ in first:
        rest_s = (ttft_s or 0.0) - now.first_token_s(replace(factors, overhead=0.0))
        logarithms.append(log(min(max(rest_s / now.outside_s, _LEAST_OVERHEAD), _MOST_OVERHEAD)))
    return exp(sum(logarithms) / len(logarithms))


def corrected_s(case: Case, lengths: Lengths, profile: Profile, sequences: float, tokens: float) -> float:
    """The time of a step by the corrected curve."""
    cell = Cell(steps=1.0, seconds=1.0, decode_sequences=sequences, prefill_tokens=tokens)
    return _seen(case, course(case, lengths), lengths, cell)[0].step_s(profile.factors)


def _works(cell: Cell) -> bool:
    return cell.decode_sequences > 0 or cell.prefill_tokens > 0


def _seen(case: Case, curve: Course, lengths: Lengths, cell: Cell) -> Seen:
    """A cell as a pace: its decode part, and its prompt tokens as one prompt. A worker counts a step for each
    data-parallel rank, so what all of them have is as many times as much."""
    ranks = case.layout.data
    sequences, tokens = cell.sequences * ranks, cell.tokens * ranks
    decode_s = curve.decode_step_s(sequences)
    prompt_s = 0.0
    if tokens:
        context = held_tokens(lengths) if sequences else 0.0
        alone = Batch(decode_sequences=sequences, decode_context_tokens=context)
        mixed = replace(alone, prefill_tokens=tokens, prefill_context_tokens=lengths.shared_prefix_tokens)
        prompt_s = max(step_time(case, mixed).total_s - step_time(case, alone).total_s, 0.0)
    now = Pace(
        running=max(sequences, 1e-9),
        alone_s=decode_s,
        decode_s=decode_s,
        prompt_s=prompt_s,
        outside_s=0.0,
        waited_steps=0.0,
        prompts_a_step=1.0,
        ahead=0.0,
    )
    return now, None, cell.mean_s
