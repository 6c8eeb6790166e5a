"""A step's time and an accelerator's memory as stacked bars. Pure."""

from dataclasses import dataclass, replace

from modelfleet.core.hardware import Hardware
from modelfleet.core.layout.answer import ClassPlan, Pool
from modelfleet.core.layout.demand import Demand
from modelfleet.core.layout.token_budget import full_batch
from modelfleet.core.layout.wording import gib, rounded, seconds
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.prediction import MemoryUse, StepTime
from modelfleet.core.perf.steps import Batch, step_time


@dataclass(frozen=True)
class Part:
    """A part of a bar: its width in percent of the track."""

    name: str
    colour: str
    percent: float
    value: str = ""


@dataclass(frozen=True)
class Row:
    """One bar."""

    label: str
    value: str
    parts: tuple[Part, ...]

    @property
    def spoken(self) -> str:
        """The parts in words, for those who do not see the bar."""
        return ", ".join(f"{part.name} {part.value}" for part in self.parts)


@dataclass(frozen=True)
class Mark:
    """A line across the bars."""

    name: str
    percent: float


@dataclass(frozen=True)
class Bars:
    """Bars on one scale with their legend."""

    rows: tuple[Row, ...]
    legend: tuple[Part, ...]
    note: str
    mark: Mark | None = None


_STEP_PARTS = (("memory reads", "c1"), ("arithmetic", "c2"), ("communication", "c3"), ("overhead", "c4"))


def step_bars(pool: Pool, case: Case, demand: Demand, tpot_s: float) -> Bars:
    """A step that decodes only and one with the whole token budget, against the time that the promise leaves."""
    running = pool.predicted.concurrency / case.layout.pipeline
    decoding = Batch(decode_sequences=running, decode_context_tokens=demand.context_tokens)
    times = {f"decode only, {rounded(running)} sequences": step_time(case, decoding)}
    budget = pool.setup.token_budget
    if budget:
        full = full_batch(case, demand, budget, pool.predicted.concurrency)
        times[f"with prompts up to the budget of {budget:,} tokens"] = step_time(case, full)
    scale = 1.08 * max([tpot_s, *(_sum(time) for time in times.values())])
    return Bars(
        rows=tuple(Row(label, seconds(time.total_s), _step_parts(time, scale)) for label, time in times.items()),
        legend=tuple(Part(name, colour, 0.0) for name, colour in _STEP_PARTS),
        note="A step gives each running answer one token. A step that also prefills makes the answers wait.",
        mark=Mark(f"TPOT of the promise, {seconds(tpot_s)}", round(tpot_s / scale * 100, 2)),
    )


def _sum(time: StepTime) -> float:
    return time.memory_s + time.compute_s + time.communication_s + time.overhead_s


def _step_parts(time: StepTime, scale: float) -> tuple[Part, ...]:
    values = (time.memory_s, time.compute_s, time.communication_s, time.overhead_s)
    return tuple(
        Part(name, colour, round(value / scale * 100, 3), seconds(value))
        for (name, colour), value in zip(_STEP_PARTS, values, strict=True)
    )


def memory_parts(memory: MemoryUse, total_bytes: float) -> tuple[Part, ...]:
    """What an accelerator's memory is used for, in percent of all that the engine sees."""
    values = (
        ("weights", "c1", memory.weights_bytes),
        ("activations", "c2", memory.activation_bytes),
        ("CUDA graphs", "c4", memory.graphs_bytes),
        ("buffers", "c5", memory.other_bytes),
        ("KV cache", "c3", max(memory.kv_bytes, 0.0)),
        ("left free", "c6", max(total_bytes - memory.budget_bytes, 0.0)),
    )
    whole = max(total_bytes, sum(value for _, _, value in values), 1.0)
    return tuple(
        Part(name, colour, round(value / whole * 100, 3), gib(value)) for name, colour, value in values if value > 0
    )


def memory_bars(plan: ClassPlan, hardware: Hardware) -> Bars:
    """The memory bar of one accelerator of each pool."""
    drawn = [(pool, memory_parts(pool.predicted.memory, float(hardware.memory_bytes))) for pool in plan.pools]
    apart = len(drawn) > 1
    rows = tuple(
        Row(pool.role.value.lower() if apart else hardware.name, gib(hardware.memory_bytes), parts)
        for pool, parts in drawn
    )
    notes = [f"{row.label}: {pool.predicted.memory.reason}." for (pool, _), row in zip(drawn, rows, strict=True)]
    legend = drawn[0][1]
    if apart:  # each pool has its own figures
        legend = tuple(replace(part, value="") for part in legend)
    return Bars(rows=rows, legend=legend, note=" ".join(notes))
