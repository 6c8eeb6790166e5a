"""What a layout lacks, one function a check: the bound, how far it is, and one sentence with the numbers. Pure."""

from __future__ import annotations

from math import ceil

from modelfleet.core.layout.answer import Check
from modelfleet.core.layout.ask import Ask, Failure
from modelfleet.core.layout.demand import Wanted
from modelfleet.core.layout.knees import Break, Margin, at_share
from modelfleet.core.layout.question import objective_place, place
from modelfleet.core.layout.shape import Layout
from modelfleet.core.layout.token_budget import Budget, budget_of
from modelfleet.core.layout.wording import count, exact_seconds, rate, rounded, seconds, share
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.knee import lightest
from modelfleet.core.perf.prediction import MemoryUse
from modelfleet.core.perf.serving import Replica


def out_of_memory(ask: Ask, layout: Layout, memory: MemoryUse) -> Failure:
    """The weights, or one sequence of the longest context, do not fit."""
    needed = memory.budget_bytes - min(memory.kv_bytes, 0.0)
    return Failure(
        class_name=ask.candidate.name,
        layout=layout,
        check=Check.MEMORY,
        field=place(ask.question, "candidates"),
        wanted=needed,
        reached=memory.budget_bytes,
        unit="bytes",
        sentence=f"{layout} {memory.reason}",
    )


def beaten(ask: Ask, layout: Layout, budget: Budget, most: int | None) -> Failure | None:
    """More accelerators than another layout takes, by prefill alone: it does no more than full steps one after the
    other."""
    if most is None or not ask.demand.rps:
        return None
    arrivals = ask.demand.total_rps * ask.demand.uncached_tokens
    least = ceil(arrivals / budget.prefill_tokens_per_s) * layout.accelerators
    if least <= most:
        return None
    return Failure(
        class_name=ask.candidate.name,
        layout=layout,
        check=Check.SCORE,
        field=place(ask.question, "candidates"),
        wanted=float(most),
        reached=float(least),
        unit="accelerators",
        sentence=f"prefill alone would keep {count(least, 'accelerator')} of {layout} busy, where {most} are enough",
    )


def too_slow(ask: Ask, layout: Layout, wanted: Wanted, slow: tuple[float, str], key: str) -> Failure:
    """One request alone breaks `key`, ttft or tpot; `slow` is the time with how far the slow end is."""
    reached, end = slow
    limit = wanted.limits.tpot_s if key == "tpot" else wanted.limits.ttft_s
    what = "a token takes" if key == "tpot" else "the first token takes"
    return Failure(
        class_name=ask.candidate.name,
        layout=layout,
        check=Check.TPOT if key == "tpot" else Check.TTFT,
        field=objective_place(ask.question, wanted.index, key),
        wanted=limit,
        reached=reached,
        unit="s",
        sentence=f"on {layout} {what} up to {seconds(reached)} {end} even for one request alone, and {key} of objective"
        f" {wanted.objective.name} is {exact_seconds(limit)}",
    )


def prompt_too_long(ask: Ask, layout: Layout, wanted: Wanted, budget: Budget, margin: Margin) -> Failure:
    """The longest prompt that must be in time is not, however empty the replica is."""
    reached = budget.prompt_s(wanted.long_prompt_tokens) * margin.tpot
    return Failure(
        class_name=ask.candidate.name,
        layout=layout,
        check=Check.TTFT,
        field=objective_place(ask.question, wanted.index, "ttft"),
        wanted=wanted.limits.ttft_s,
        reached=reached,
        unit="s",
        sentence=f"on {layout} a prompt of {rounded(wanted.long_prompt_tokens)} tokens takes up to {seconds(reached)}"
        f" {margin.said('tpot')} in steps of {budget.tokens} tokens, the largest inside tpot"
        f" {exact_seconds(ask.demand.tpot_s)}, and ttft of objective {wanted.objective.name} is"
        f" {exact_seconds(wanted.limits.ttft_s)}",
    )


def share_not_kept(ask: Ask, wanted: Wanted, it: Replica, margin: Margin) -> Failure:
    """The mean of a lone request is inside, the wanted share is not, with requests that come one by one."""
    limits, kept = wanted.limits, share(wanted.limits.share)
    ttft, tpot = at_share(lightest(it), limits.share)
    ttft, tpot = ttft * margin.ttft, tpot * margin.tpot
    by_tpot = tpot / limits.tpot_s > ttft / limits.ttft_s
    key, reached, limit = ("tpot", tpot, limits.tpot_s) if by_tpot else ("ttft", ttft, limits.ttft_s)
    named = f"objective {wanted.objective.name}"
    if reached > limit:
        sentence = f"{kept} of the requests are inside {key} {seconds(reached)} {margin.said(key)} at the least load,"
        sentence += f" and {key} of {named} is {exact_seconds(limit)}"
    else:
        both = f"ttft {exact_seconds(limits.ttft_s)} and tpot {exact_seconds(limits.tpot_s)}"
        sentence = f"fewer than {kept} of the requests are inside both {both} of {named} at the least load"
    return Failure(
        class_name=ask.candidate.name,
        layout=it.case.layout,
        check=Check.TPOT if by_tpot else Check.TTFT,
        field=objective_place(ask.question, wanted.index, key),
        wanted=limit,
        reached=max(reached, limit),
        unit="s",
        sentence=f"on {it.case.layout} {sentence}",
    )


def no_budget(ask: Ask, case: Case, margin: Margin) -> Failure:
    """Prefill and decode do not fit into one step: what rule 14 is about."""
    least = budget_of(case, ask.demand, 128, 1.0)
    wanted = min(ask.demand.wanted, key=lambda one: one.limits.tpot_s)
    return Failure(
        class_name=ask.candidate.name,
        layout=case.layout,
        check=Check.TOKEN_BUDGET,
        field=objective_place(ask.question, wanted.index, "tpot"),
        wanted=wanted.limits.tpot_s,
        reached=least.step_s * margin.tpot,
        unit="s",
        sentence=f"on {case.layout} no token budget keeps a step that prefills beside the running sequences inside tpot"
        f" {exact_seconds(wanted.limits.tpot_s)} and prefills as fast as prompts arrive; with 128 tokens it takes up to"
        f" {seconds(least.step_s * margin.tpot)} {margin.said('tpot')}",
    )


def over_bounds(ask: Ask, layout: Layout, replicas: int, broken: Break) -> Failure | None:
    """maxReplicas and maxAccelerators."""
    bounds = ask.question.bounds
    total = replicas * layout.accelerators
    load = f"the load needs {count(replicas, 'replica')} of {layout} ({count(total, 'accelerator')})"
    knee = f", since one keeps the promise up to {rate(broken.knee.requests_per_s)}"
    limits = (
        ("bounds.max_replicas", bounds.max_replicas, replicas, "replicas"),
        ("bounds.max_accelerators", bounds.max_accelerators, total, "accelerators"),
    )
    for name, most, needed, unit in limits:
        if most is not None and needed > most:
            return Failure(
                class_name=ask.candidate.name,
                layout=layout,
                check=Check.CAPACITY,
                field=place(ask.question, name),
                wanted=float(needed),
                reached=float(most),
                unit=unit,
                sentence=f"{load}{knee}, and {place(ask.question, name)} is {most}",
            )
    return None
