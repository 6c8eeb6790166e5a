"""Which layouts are worth a look on one class, and why others are not. Pure.

Tensor parallelism stays in the fabric domain; stages (pipeline) come only where the largest domain cannot hold the
model; attention data parallelism is for mixtures of experts (dense models run as replicas: vLLM refuses it for them).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from modelfleet.core.hardware import Hardware
from modelfleet.core.layout.answer import Check
from modelfleet.core.layout.best_of import simplicity
from modelfleet.core.layout.question import Pins, Question, Strategy, place
from modelfleet.core.layout.shape import Layout
from modelfleet.core.layout.wording import count, listed
from modelfleet.core.model.facts import Attention, ModelFacts, Scheme

_MOST = 64
"""Accelerators of one replica that are looked at without a pin."""

_STAGES = (2, 3, 4, 6, 8)
_BLOCK = 128
"""Side of the blocks that published fp8 mixtures are scaled in (their quantization_config's weight_block_size)."""


@dataclass(frozen=True)
class Impossible:
    """A layout that cannot be, whatever the load."""

    layout: Layout
    check: Check
    field: str
    sentence: str


def nodes_of(layout: Layout, hardware: Hardware) -> int:
    """Nodes that one replica spans."""
    return layout.nodes(hardware.accelerators_per_node)


def pinned(pins: Pins) -> bool:
    """Whether the user fixed any degree."""
    return any(value is not None for value in (pins.tensor, pins.pipeline, pins.data, pins.expert))


def single_stage(question: Question, facts: ModelFacts, hardware: Hardware) -> list[Layout]:
    """Layouts without stages, simplest first."""
    pins = question.pins
    if (pins.pipeline or 1) > 1:
        return []
    return _wanted(question, (one for one in _spread(facts, hardware, pins)))


def staged(question: Question, facts: ModelFacts, hardware: Hardware) -> list[Layout]:
    """Layouts with stages of a whole domain each, and mixtures spread over several nodes: for models that no single
    domain holds."""
    pins = question.pins
    stages = (pins.pipeline,) if pins.pipeline else _STAGES
    tensors = (pins.tensor,) if pins.tensor else _tensors(facts, hardware)[-1:]
    made = [
        Layout(tensor=tensor, pipeline=stage, data=pins.data or 1, expert=bool(pins.expert))
        for stage in stages
        for tensor in tensors
        if stage > 1
    ]
    if facts.is_mixture and not pins.pipeline:
        made += [
            Layout(tensor=tensor, data=data, expert=True)
            for tensor in tensors
            for data in (pins.data or 2, 4)
            if data > 1
        ]
    return _wanted(question, made)


def impossible(question: Question, layout: Layout, facts: ModelFacts, hardware: Hardware) -> Impossible | None:
    """What forbids a layout, whatever the load; None if nothing does."""
    for check, name, sentence in _objections(question, layout, facts, hardware):
        if sentence:
            return Impossible(layout, check, place(question, name), sentence)
    return None


def _wanted(question: Question, layouts: Iterator[Layout] | list[Layout]) -> list[Layout]:
    """Those that agree with the pins, without doubles, simplest first."""
    kept = {one for one in layouts if _agrees(one, question.pins)}
    return sorted(kept, key=simplicity)


def _agrees(layout: Layout, pins: Pins) -> bool:
    stated = (
        (pins.tensor, layout.tensor),
        (pins.pipeline, layout.pipeline),
        (pins.data, layout.data),
        (pins.expert, layout.expert),
    )
    if any(wish is not None and wish != value for wish, value in stated):
        return False
    if pins.strategy is Strategy.REPLICAS:
        return layout.accelerators == 1
    return layout.accelerators > 1 if pins.strategy is Strategy.SHARDED else True


def _tensors(facts: ModelFacts, hardware: Hardware) -> list[int]:
    """Powers of two up to the domain that the heads can be shared out over."""
    sizes, size = [], 1
    while size <= min(hardware.domain, _MOST):
        if not _heads_objection(facts, size):
            sizes.append(size)
        size *= 2
    return sizes or [1]


def _spread(facts: ModelFacts, hardware: Hardware, pins: Pins) -> Iterator[Layout]:
    tensors = [pins.tensor] if pins.tensor else _tensors(facts, hardware)
    inside = max(hardware.domain, hardware.accelerators_per_node)
    for tensor in tensors:
        yield Layout(tensor=tensor, expert=bool(pins.expert))
        if not facts.is_mixture:
            if pins.data:
                yield Layout(tensor=tensor, data=pins.data, expert=bool(pins.expert))
            continue
        if tensor > 1:
            yield Layout(tensor=tensor, expert=True)
        data = 2
        while data * tensor <= min(inside, _MOST):
            if _copies_cache(facts, data * tensor):
                yield Layout(tensor=tensor, data=data, expert=True)
            data *= 2
        if pins.data:
            yield Layout(tensor=tensor, data=pins.data, expert=pins.expert if pins.expert is not None else True)


def _copies_cache(facts: ModelFacts, degree: int) -> bool:
    """Whether tensor parallelism of this degree keeps parts of the cache more than once: a latent cache on every rank,
    or fewer KV heads than ranks. Otherwise it shares the cache out, and data-parallel ranks gain nothing."""
    latent = (Attention.LATENT, Attention.LATENT_SPARSE)
    return any(
        part.kind in latent or (part.kind is not Attention.LINEAR and part.kv_heads < degree)
        for part in facts.attention
    )


def _objections(
    question: Question, layout: Layout, facts: ModelFacts, hardware: Hardware
) -> Iterator[tuple[Check, str, str]]:
    """Each rule with the value it judges and what is wrong, empty where nothing is."""
    yield Check.DIVISIBILITY, "pins.tensor", _heads_objection(facts, layout.tensor)
    yield Check.FABRIC, "pins.tensor", _fabric_objection(layout, hardware)
    yield Check.PIPELINE, "pins.pipeline", _stages_objection(layout, facts)
    yield Check.EXPERTS, "pins.expert", _expert_objection(layout, facts)
    yield Check.DATA, "pins.data", _data_objection(layout, facts)
    yield Check.DIVISIBILITY, "pins.tensor", _width_objection(layout, facts)


def _heads_objection(facts: ModelFacts, tensor: int) -> str:
    """vLLM: attention heads are divisible by the tensor degree; KV heads divide it or are divided by it."""
    for part in facts.attention:
        if part.kind is Attention.LINEAR:
            continue
        if part.heads % tensor:
            works = _divisors(part.heads)
            return f"{count(part.heads, 'attention head')} cannot be shared out over {tensor} accelerators; {works} can"
        if part.kv_heads and part.kv_heads % tensor and tensor % part.kv_heads:
            return (
                f"{count(part.kv_heads, 'KV head')} can neither be shared out over nor copied to {tensor} accelerators"
            )
    return ""


def _divisors(number: int) -> str:
    return listed(str(size) for size in range(1, min(number, _MOST) + 1) if number % size == 0)


def _fabric_objection(layout: Layout, hardware: Hardware) -> str:
    if layout.tensor <= hardware.domain:
        return ""
    return (
        f"tensor parallelism over {layout.tensor} accelerators would leave the fabric domain of {hardware.name}, which"
        f" joins {hardware.domain}"
    )


def _stages_objection(layout: Layout, facts: ModelFacts) -> str:
    if layout.pipeline <= facts.layers:
        return ""
    return f"{layout.pipeline} stages for {facts.layers} layers: a stage has at least one layer"


def _expert_objection(layout: Layout, facts: ModelFacts) -> str:
    if not layout.expert:
        return ""
    if not facts.is_mixture:
        return f"expert parallelism needs a mixture of experts, and {facts.name} is dense"
    for part in facts.feed_forward:
        if part.experts % layout.expert_degree:
            return f"{part.experts} experts cannot be shared out over {layout.expert_degree} accelerators"
    return ""


def _data_objection(layout: Layout, facts: ModelFacts) -> str:
    if layout.data == 1 or facts.is_mixture:
        return ""
    return f"{facts.name} is dense: attention data parallelism is for mixtures of experts, replicas do the same here"


def _width_objection(layout: Layout, facts: ModelFacts) -> str:
    """Without expert parallelism each expert is cut in `tensor` pieces, and fp8 blocks cannot be cut."""
    if layout.expert or layout.tensor == 1:
        return ""
    for part in facts.feed_forward:
        if part.intermediate % layout.tensor:
            return f"a hidden width of {part.intermediate} cannot be shared out over {layout.tensor} accelerators"
        piece = part.intermediate // layout.tensor
        if part.experts and facts.native is Scheme.FP8 and piece % _BLOCK:
            return (
                f"experts of width {part.intermediate} cut in {layout.tensor} leave {piece}, not a multiple of the"
                f" {_BLOCK} that the checkpoint's fp8 blocks need; with expert parallelism they stay whole"
            )
    return ""
