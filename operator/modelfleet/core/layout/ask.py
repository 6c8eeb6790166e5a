"""What one class is asked, and what comes back for one layout: sized, or failed at a check. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from modelfleet.core.layout.answer import Check, Predicted, QuantizationDecision, Reason
from modelfleet.core.layout.demand import Demand, Wanted
from modelfleet.core.layout.question import Candidate, Measured, Question, Variant
from modelfleet.core.layout.shape import Layout
from modelfleet.core.layout.token_budget import Budget
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.workload import EngineSetup

MEMORY_FRACTION = 0.9
"""Of the accelerator that the engine takes, without a pin: room for what the driver and others hold (rule 2)."""

MOST_SEQUENCES = 1024
"""The engine's own largest default of max-num-seqs."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A question on one class, with the weights chosen."""

    question: Question
    candidate: Candidate
    variant: Variant
    decision: QuantizationDecision
    demand: Demand
    context_tokens: int
    block: int
    block_reason: Reason

    def case(self, layout: Layout, *, budget: int | None = None, cap: int | None = None) -> Case:
        """The case of a layout; what the user pinned wins."""
        pins, question = self.question.pins, self.question
        setup = EngineSetup(
            engine=question.engine,
            version=question.engine_version,
            weights=self.decision.weights,
            kv=self.decision.kv,
            memory_fraction=pins.memory_fraction or MEMORY_FRACTION,
            token_budget=pins.token_budget or budget,
            sequence_cap=pins.sequence_cap or cap,
            context_limit_tokens=self.context_tokens,
            block_tokens=self.block,
        )
        return Case(facts=self.variant.facts, hardware=self.candidate.hardware, layout=layout, setup=setup)

    def measured(self, layout: Layout) -> Measured | None:
        """What was measured of this class, layout, scheme and engine version."""
        for one in self.question.profiles:
            same = (one.class_name, one.layout, one.weights) == (self.candidate.name, layout, self.decision.weights)
            if same and one.engine_version == self.question.engine_version:
                return one
        return None


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A layout that cannot keep the promise: the check, and how far it is in one unit."""

    class_name: str
    layout: Layout | None
    check: Check
    field: str
    wanted: float
    reached: float
    unit: str
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Sized:
    """A layout that keeps the promise, with its settings and the replicas for the load."""

    case: Case
    budget: Budget
    replicas: int
    predicted: Predicted
    binding: Wanted
    running: float
    """Sequences that run together in one replica at its part of the load."""
    shortfall: int
    """Replicas that the nodes have no room for."""
    room_sentence: str
    flags: dict[str, str]
    reasons: tuple[Reason, ...]

    @property
    def layout(self) -> Layout:
        """The layout that was sized."""
        return self.case.layout

    @property
    def accelerators(self) -> int:
        """Accelerators of all replicas."""
        return self.replicas * self.layout.accelerators
