"""Everything about one class: its weights, its layouts one after the other, the best of them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from modelfleet.core.layout.answer import Check, Rejected
from modelfleet.core.layout.ask import MEMORY_FRACTION, Ask, Failure, Sized
from modelfleet.core.layout.best_of import simplicity
from modelfleet.core.layout.block_size import decide_block
from modelfleet.core.layout.demand import Demand
from modelfleet.core.layout.question import Candidate, Question, context_of, place
from modelfleet.core.layout.shape import Layout
from modelfleet.core.layout.shapes import impossible, pinned, single_stage, staged
from modelfleet.core.layout.sizing import size
from modelfleet.core.layout.wording import count, gib, listed
from modelfleet.core.perf.memory import weights_bytes
from modelfleet.core.quantization import NotChosen, decide_quantization


@dataclass(frozen=True, kw_only=True)
class Looked:
    """What was looked at on one class. `best` None: nothing keeps the promise, and `failures` say why."""

    candidate: Candidate
    ask: Ask | None = None
    best: Sized | None = None
    sized: tuple[Sized, ...] = ()
    failures: tuple[Failure, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    refusal: NotChosen | None = None


@dataclass
class _Notes:
    """What piles up while layouts are looked at."""

    sized: list[Sized] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    skipped: list[Rejected] = field(default_factory=list)

    @property
    def best(self) -> Sized | None:
        return min(self.sized, key=rank, default=None)


def rank(sized: Sized) -> tuple[bool, int, tuple[int, int, int, bool]]:
    """Sorts the better layout of one class first: one that has nodes, then the fewer accelerators, then the simpler."""
    return sized.shortfall > 0, sized.accelerators, simplicity(sized.layout)


def look(question: Question, candidate: Candidate, demand: Demand) -> Looked:
    """All layouts of one class, and the best of those that keep the promise."""
    refusal = _engine_refused(question, candidate)
    if refusal:
        return _whole_class(candidate, refusal)
    chosen = decide_quantization(question, candidate)
    if isinstance(chosen, NotChosen):
        failure = Failure(
            class_name=candidate.name,
            layout=None,
            check=chosen.check,
            field=chosen.field,
            wanted=1.0,
            reached=0.0,
            unit="weights",
            sentence=chosen.sentence,
        )
        return _whole_class(candidate, failure, chosen)
    facts = chosen.variant.facts
    block, why = decide_block(question, facts, candidate.hardware, demand.lengths)
    ask = Ask(
        question=question,
        candidate=candidate,
        variant=chosen.variant,
        decision=chosen.decision,
        demand=demand,
        context_tokens=context_of(question, facts.max_context_tokens),
        block=block,
        block_reason=why,
    )
    notes = _Notes()
    _try(ask, single_stage(question, facts, candidate.hardware), notes)
    if not notes.sized and _stages_may_help(question, notes):
        _try(ask, staged(question, facts, candidate.hardware), notes)
    return _summed_up(ask, notes)


def _engine_refused(question: Question, candidate: Candidate) -> Failure | None:
    allowed, version = candidate.engine_versions, question.engine_version
    if not allowed or not version or version in allowed:
        return None
    field_path = place(question, "engine_version")
    return Failure(
        class_name=candidate.name,
        layout=None,
        check=Check.ENGINE,
        field=field_path,
        wanted=1.0,
        reached=0.0,
        unit="versions",
        sentence=f"{field_path} is {version}, and class {candidate.name} allows {listed(allowed, 'or')}",
    )


def _whole_class(candidate: Candidate, failure: Failure, refusal: NotChosen | None = None) -> Looked:
    return Looked(candidate=candidate, failures=(failure,), rejected=(_as_rejected(failure),), refusal=refusal)


def _as_rejected(failure: Failure) -> Rejected:
    return Rejected(
        class_name=failure.class_name, layout=failure.layout, check=failure.check, sentence=failure.sentence
    )


def _try(ask: Ask, layouts: Sequence[Layout], notes: _Notes) -> None:
    """Each layout in turn, the smaller ones first; those that cannot hold the weights or cannot win are not sized.

    The largest of those that are too small is looked at in full, for the numbers.
    """
    total = weights_bytes(ask.variant.facts, ask.decision.weights, Layout())
    usable = ask.candidate.hardware.memory_bytes * (ask.question.pins.memory_fraction or MEMORY_FRACTION)
    small = [layout for layout in layouts if layout.accelerators * usable < total]
    shown = next((one for one in small if one.accelerators == small[-1].accelerators), None)
    for layout in layouts:
        if layout in small and layout != shown:
            notes.skipped.append(_too_small(ask, layout, total, usable))
        elif not _skipped(ask, layout, notes):
            best = notes.best
            enough = best.accelerators if best and not best.shortfall else None
            outcome = _forbidden(ask, layout) or size(ask, layout, enough)
            if isinstance(outcome, Sized):
                notes.sized.append(outcome)
            elif outcome.check is Check.SCORE:
                notes.skipped.append(_as_rejected(outcome))
            else:
                notes.failures.append(outcome)


def _too_small(ask: Ask, layout: Layout, total: float, usable: float) -> Rejected:
    sentence = (
        f"{layout} does not fit: {gib(total)} of {ask.decision.weights} weights are more than"
        f" {count(layout.accelerators, 'accelerator')} with {gib(usable)} each"
    )
    return Rejected(class_name=ask.candidate.name, layout=layout, check=Check.MEMORY, sentence=sentence)


def _forbidden(ask: Ask, layout: Layout) -> Failure | None:
    found = impossible(ask.question, layout, ask.variant.facts, ask.candidate.hardware)
    if found is None:
        return None
    return Failure(
        class_name=ask.candidate.name,
        layout=layout,
        check=found.check,
        field=found.field,
        wanted=1.0,
        reached=0.0,
        unit="layouts",
        sentence=found.sentence,
    )


def _skipped(ask: Ask, layout: Layout, notes: _Notes) -> bool:
    """Not worth sizing: it has more stages than the model needs to fit, or takes more than the best in any case."""
    if _needless(layout, notes):
        return True
    best = notes.best
    least = layout.accelerators * ask.question.bounds.min_replicas
    if best and not best.shortfall and best.layout.accelerators < layout.accelerators and least >= best.accelerators:
        notes.skipped.append(_cannot_win(ask, layout, best))
        return True
    return False


def _needless(layout: Layout, notes: _Notes) -> bool:
    """Rule 6: no more stages than the model needs to fit."""
    tried = [one.layout for one in notes.failures if one.check is not Check.MEMORY and one.layout is not None]
    tried += [one.layout for one in notes.sized]
    return any(
        1 < one.pipeline < layout.pipeline and (one.tensor, one.data) == (layout.tensor, layout.data) for one in tried
    )


def _cannot_win(ask: Ask, layout: Layout, best: Sized) -> Rejected:
    least = ask.question.bounds.min_replicas
    few = "even one replica" if least == 1 else f"even {least} replicas"
    sentence = (
        f"{few} of {layout} would take {layout.accelerators * least} accelerators, where {best.layout} takes"
        f" {best.accelerators} in all"
    )
    return Rejected(class_name=ask.candidate.name, layout=layout, check=Check.SCORE, sentence=sentence)


def _stages_may_help(question: Question, notes: _Notes) -> bool:
    """Rule 6: stages only where nothing fits without them, or where the user pinned them."""
    if (question.pins.pipeline or 1) > 1:
        return True
    if question.pins.pipeline == 1:
        return False
    unfit = [one for one in notes.failures if one.check not in (Check.DIVISIBILITY, Check.FABRIC, Check.EXPERTS)]
    return all(one.check is Check.MEMORY for one in unfit)


def _summed_up(ask: Ask, notes: _Notes) -> Looked:
    best = notes.best
    rejected = [_as_rejected(one) for one in notes.failures]
    rejected += notes.skipped
    for one in notes.sized:
        if best is not None and one is not best:
            rejected.append(_worse(ask, one, best))
    failures = tuple(notes.failures)
    if not notes.sized and not failures:
        failures = (_no_layout(ask),)
    rejected.sort(key=lambda one: simplicity(one.layout) if one.layout else (0, 0, 0, False))
    return Looked(
        candidate=ask.candidate,
        ask=ask,
        best=best,
        sized=tuple(notes.sized),
        failures=failures,
        rejected=tuple(rejected),
    )


def _worse(ask: Ask, one: Sized, best: Sized) -> Rejected:
    mine, its = count(one.accelerators, "accelerator"), count(best.accelerators, "accelerator")
    keeps = f"{one.layout} keeps the promise too with {count(one.replicas, 'replica')}"
    if one.shortfall and not best.shortfall:
        sentence = f"{keeps}, but the nodes lack room for {count(one.shortfall, 'replica')}"
    elif one.accelerators == best.accelerators:
        sentence = f"{keeps} and as many accelerators ({mine}); {best.layout} is simpler"
    else:
        sentence = f"{keeps}, but takes {mine} where {best.layout} takes {its}"
    return Rejected(class_name=ask.candidate.name, layout=one.layout, check=Check.SCORE, sentence=sentence)


def _no_layout(ask: Ask) -> Failure:
    """The pins leave nothing to try."""
    question = ask.question
    names = [
        place(question, f"pins.{name}")
        for name in ("strategy", "tensor", "pipeline", "data", "expert")
        if pinned(question.pins) and getattr(question.pins, name) is not None
    ]
    fields = names or [place(question, "pins.strategy")]
    return Failure(
        class_name=ask.candidate.name,
        layout=None,
        check=Check.PINS,
        field=fields[0],
        wanted=1.0,
        reached=0.0,
        unit="layouts",
        sentence=f"no layout of class {ask.candidate.name} agrees with {listed(fields)}",
    )
