"""Why a layout is as it is, as a list of reasons in the order in which an expert would tell them. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from modelfleet.core.layout.answer import Check, Departure, Reason
from modelfleet.core.layout.ask import Ask, Failure, Sized
from modelfleet.core.layout.best_of import simplicity
from modelfleet.core.layout.on_class import Looked
from modelfleet.core.layout.question import Pins, Strategy, place
from modelfleet.core.layout.shapes import nodes_of, pinned
from modelfleet.core.layout.wording import (
    count,
    exact_seconds,
    gib,
    in_flight,
    listed,
    percent,
    rate,
    rounded,
    seconds,
    share,
)
from modelfleet.core.model.facts import Attention
from modelfleet.core.perf.prediction import Source

_LATENCY = {Check.TPOT: "tpot", Check.TTFT: "ttft", Check.TOKEN_BUDGET: "tpot"}


def reasons_for(looked: Looked, ask: Ask, best: Sized) -> tuple[Reason, ...]:
    """All reasons of the best layout of a class."""
    quantization = Check.QUANTIZATION if ask.decision.departure is Departure.ACCEPTED else Check.VARIANT
    found = [
        Reason(check=quantization, sentence=ask.decision.sentence),
        _spread(looked, ask, best),
        *_degrees(ask, best),
        *best.reasons,
        _load(ask, best),
        _source(ask, best),
        *_host(ask, best),
    ]
    return tuple(found)


def _spread(looked: Looked, ask: Ask, best: Sized) -> Reason:
    """Rules 12 and 6: replicas of one accelerator, or which of three causes forces more."""
    layout, memory = best.layout, best.predicted.memory
    weights = f"{gib(memory.weights_bytes)} of weights"
    if layout.accelerators == 1:
        sentence = (
            f"the model fits one accelerator ({weights}, {gib(memory.kv_bytes)} of KV cache) and keeps the promise"
            " there: whole replicas, nothing is shared"
        )
        return Reason(check=Check.FITS_ONE, sentence=sentence)
    if pinned(ask.question.pins) or ask.question.pins.strategy is Strategy.SHARDED:
        return Reason(check=Check.PINS, sentence=f"{layout}, pinned by {_pins(ask)}")
    smaller_failed = [one for one in looked.failures if _is_smaller(one, best)]
    smaller_kept = [one for one in looked.sized if one.layout.accelerators < layout.accelerators]
    if smaller_kept:
        return _pays(max(smaller_kept, key=lambda one: one.layout.accelerators), best)
    return _forced(smaller_failed, best)


def _pins(ask: Ask) -> str:
    """The fields that fix the layout."""
    plain = Pins()
    names = ("strategy", "tensor", "pipeline", "data", "expert")
    fixed = [name for name in names if getattr(ask.question.pins, name) != getattr(plain, name)]
    return listed(place(ask.question, f"pins.{name}") for name in fixed)


def _is_smaller(failure: Failure, best: Sized) -> bool:
    return failure.layout is not None and failure.layout.accelerators < best.layout.accelerators


def _forced(failed: list[Failure], best: Sized) -> Reason:
    """Nothing smaller keeps the promise: the closest of them says why."""
    telling = [one for one in failed if one.check not in (Check.DIVISIBILITY, Check.FABRIC, Check.EXPERTS)]
    if not telling:
        return Reason(check=Check.SHARDING, sentence=f"{best.layout} is the smallest layout that is possible")
    most = max(one.layout.accelerators for one in telling if one.layout)
    nearest = [one for one in telling if one.layout and one.layout.accelerators == most]
    last = min(nearest, key=lambda one: simplicity(one.layout or best.layout))
    if last.check is Check.MEMORY:
        cause = "sharded because the model does not fit fewer accelerators"
    elif last.check in _LATENCY:
        cause = f"sharded because {_LATENCY[last.check]} must drop, not for memory"
    else:
        cause = "sharded because a smaller replica's KV pool is too small for the concurrency of the promise"
    return Reason(check=Check.SHARDING, sentence=f"{cause}: {last.sentence}")


def _pays(smaller: Sized, best: Sized) -> Reason:
    """Something smaller works and costs more: what bounds it names the cause."""
    bound = smaller.predicted.knee_bound
    if bound == "kv":
        cause = "sharded for a larger KV pool"
    elif bound in ("ttft", "tpot"):
        cause = f"sharded because {bound} must drop before a replica can take more load"
    else:
        cause = "sharded because the weights are then read once for more sequences"
    sentence = (
        f"{cause}: one {smaller.layout} keeps the promise up to {rate(smaller.predicted.knee_rps)}, where"
        f" {_ends(bound)}, and {count(smaller.accelerators, 'accelerator')} would be needed; one {best.layout} keeps it"
        f" up to {rounded(best.predicted.knee_rps)}"
    )
    return Reason(check=Check.SHARDING, sentence=sentence)


def _ends(bound: str) -> str:
    return {
        "kv": "its KV cache is full",
        "ttft": "the first token comes too late",
        "tpot": "tokens come too slowly",
    }.get(bound, "its throughput ends")


def _degrees(ask: Ask, best: Sized) -> Iterator[Reason]:
    """What each degree is for."""
    layout, hardware, facts = best.layout, ask.candidate.hardware, ask.variant.facts
    if layout.tensor > 1:
        sentence = f"tensor parallel over {layout.tensor}, inside the fabric domain of {hardware.domain} accelerators"
        yield Reason(check=Check.FABRIC, sentence=sentence)
    if layout.pipeline > 1:
        nodes = nodes_of(layout, hardware)
        yield Reason(
            check=Check.PIPELINE,
            sentence=f"{layout.pipeline} stages over {count(nodes, 'node')}: the largest domain cannot hold the model,"
            " and between domains only a stage's hidden states travel",
        )
    if facts.is_mixture and layout.accelerators > 1:
        yield from _mixture(ask, best)


def _mixture(ask: Ask, best: Sized) -> Iterator[Reason]:
    layout, facts = best.layout, ask.variant.facts
    latent = any(part.kind in (Attention.LATENT, Attention.LATENT_SPARSE) for part in facts.attention)
    if layout.expert:
        experts = max(part.experts for part in facts.feed_forward)
        yield Reason(
            check=Check.EXPERTS,
            sentence=f"whole experts: {experts // layout.expert_degree} of {experts} on each of {layout.expert_degree}"
            " accelerators, tokens travel all-to-all; how evenly routing loads them is not known yet (no data)",
        )
    if layout.data > 1:
        why = "the latent cache would be copied to every tensor rank" if latent else "attention shares nothing then"
        yield Reason(
            check=Check.DATA,
            sentence=f"attention on {layout.data} data-parallel ranks with a cache of their own each: {why}",
        )
    elif latent and layout.tensor > 1:
        yield Reason(
            check=Check.CONTEXT_PARALLEL,
            sentence=f"the latent cache is copied to all {layout.tensor} tensor ranks; decode context parallelism would"
            " share it out, and is not used while the cache is not what breaks first"
            if best.predicted.knee_bound != "kv"
            else f"the latent cache is copied to all {layout.tensor} tensor ranks and is what breaks first; decode"
            " context parallelism would share it out, but its speed is not predicted yet, so it is not chosen",
        )


def _load(ask: Ask, best: Sized) -> Reason:
    """How many, and what ends a replica's reach."""
    at, wanted = best.predicted, best.binding
    bounds = ask.question.bounds
    size = count(best.replicas, "replica")
    knee = (
        f"one replica keeps {share(at.share)} inside ttft {exact_seconds(wanted.limits.ttft_s)} and tpot"
        f" {exact_seconds(wanted.limits.tpot_s)} up to {rate(at.knee_rps)}, where {_ends(at.knee_bound)}"
    )
    others = f" (objective {at.objective} binds)" if len(ask.demand.wanted) > 1 else ""
    stated = rate(ask.demand.total_rps) if ask.demand.rps else in_flight(rounded(ask.demand.concurrency))
    least = (
        f", as {place(ask.question, 'bounds.min_replicas')} says" if best.replicas == bounds.min_replicas > 1 else ""
    )
    return Reason(check=Check.LOAD, sentence=f"{size} for {stated}{least}: {knee}{others}")


def _host(ask: Ask, best: Sized) -> Iterator[Reason]:
    """Advice about the host's share: weights pass through its page cache, and each worker's engine is a process that
    spins."""
    memory, cores = ask.candidate.host_memory_bytes_per_accelerator, ask.candidate.host_cpus_per_accelerator
    weights = best.predicted.memory.weights_bytes
    if memory is not None and memory < weights:
        yield Reason(
            check=Check.HOST,
            sentence=f"{gib(memory)} of host memory an accelerator are less than its {gib(weights)} of weights: a start"
            " reads parts of them again and takes longer",
        )
    if cores is not None and cores < 1:
        yield Reason(
            check=Check.HOST,
            sentence=f"{rounded(cores)} cores an accelerator are less than the one that its worker keeps busy: steps"
            " wait for it",
        )


def _source(ask: Ask, best: Sized) -> Reason:
    at = best.predicted
    times = f"mean TTFT {seconds(at.ttft_s)} and TPOT {seconds(at.tpot_s)}"
    if at.source is Source.MEASURED:
        measured = ask.measured(best.layout)
        name = f" of profile {measured.name}" if measured and measured.name else ""
        knee = f"; its knee is {rounded(at.knee_rps)} requests a second at the low end" if at.knee_measured else ""
        return Reason(check=Check.PROFILE, sentence=f"{times}, from measurements{name}{knee}")
    old = [
        one
        for one in ask.question.profiles
        if (one.class_name, one.layout) == (ask.candidate.name, best.layout)
        and one.engine_version != ask.question.engine_version
    ]
    unused = f"; the profile of engine {old[0].engine_version} is not used" if old else ""
    return Reason(
        check=Check.UNCERTAINTY,
        sentence=f"{times}, predicted to {percent(at.ttft_uncertainty)} and {percent(at.uncertainty)}; sized for the"
        f" slow end{unused}",
    )
