"""An answer as prose: what runs, why, what was rejected, what would work instead. Pure.

What the commands print and what the worked stories are; numbers are rounded as in the reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from textwrap import fill

from modelfleet.core.layout.answer import Answer, ClassPlan, Infeasible, Offer, Pool, Rejected, Role
from modelfleet.core.layout.question import Objective, Question
from modelfleet.core.layout.wording import count, exact_seconds, in_flight, percent, rounded, seconds, share

_WIDTH = 118


def tell(question: Question, answer: Answer) -> str:
    """The whole answer, a paragraph or list for each part; ends with a line break."""
    parts = (
        _asked(question),
        _list("Wrong with it", (f"{one.sentence}." for one in answer.problems)),
        *(_plan(plan) for plan in answer.plans[:1]),
        _list("Which class", (f"{one.sentence}." for one in answer.reasons)),
        _list("Also planned, for when that class has no room", (f"{_short(plan)}." for plan in answer.plans[1:])),
        _infeasible(answer.infeasible),
        _list("To validate again", (f"{one}." for one in answer.infeasible.revalidate) if answer.infeasible else ()),
        _list("What would work", (_offer(one) for one in answer.offers)),
        _list("Rejected", _rejected(answer.rejected)),
        _paragraph(f"Money: {answer.economics.sentence}." if answer.economics else ""),
    )
    return "\n\n".join(part for part in parts if part) + "\n"


def _asked(question: Question) -> str:
    model = question.variants[0].facts.name if question.variants else "no model"
    offered = " and ".join(dict.fromkeys(str(one.weights) for one in question.variants))
    classes = ", ".join(one.name for one in question.candidates)
    lines = [_paragraph(f"{model}, offered in {offered}, on {classes}.")]
    lines += [_paragraph(_promise(one)) for one in question.objectives]
    return "\n".join(lines)


def _promise(one: Objective) -> str:
    load = (
        f"{one.load_rps:g} request{'' if one.load_rps == 1 else 's'}/s"
        if one.load_rps is not None
        else in_flight(f"{one.load_concurrency or 0:g}")
    )
    lengths = one.lengths
    prefix = f", {lengths.shared_prefix_tokens:,} of the input in common" if lengths.shared_prefix_tokens else ""
    return (
        f"Objective {one.name}: {share(one.share)} of the requests inside ttft {exact_seconds(one.ttft_s)} and tpot"
        f" {exact_seconds(one.tpot_s)} at {load}, with {lengths.input_p50_tokens:,} tokens in and"
        f" {lengths.output_p50_tokens:,} out (p95 {lengths.input_p95_tokens:,} and {lengths.output_p95_tokens:,}"
        f"{prefix})."
    )


def _plan(plan: ClassPlan) -> str:
    verb = "Runs" if plan.rolled_out else "Would run (this version does not roll it out)"
    lines = [_paragraph(f"{verb}: {_short(plan)}.")]
    for pool in plan.pools:
        lines += [_paragraph(_predicted(pool)), _paragraph(_flags(pool))]
    lines += ["", *_items(f"{one.check}: {one.sentence}." for one in plan.reasons)]
    lines += _items([f"Speculation: {plan.speculation.sentence}."])
    if plan.speculation.on:
        lines += _items([f"Its table (batch from, to, draft tokens): {_table(plan)}."])
    return "\n".join(lines)


def _table(plan: ClassPlan) -> str:
    return ", ".join(f"{low}-{high}: {tokens}" for low, high, tokens in plan.speculation.table)


def _short(plan: ClassPlan) -> str:
    pools = " and ".join(
        f"{count(pool.replicas, 'replica')} of {pool.layout}" + (f" ({pool.role})" if len(plan.pools) > 1 else "")
        for pool in plan.pools
    )
    nodes = plan.pool.nodes_per_replica
    over = f", each over {count(nodes, 'node')}" if nodes > 1 else ""
    cost = f", {rounded(float(plan.cost_per_hour), 3)} {plan.currency}/h" if plan.cost_per_hour is not None else ""
    return f"{pools} on {plan.class_name}{over}: {count(plan.accelerators, 'accelerator')}{cost}"


def _predicted(pool: Pool) -> str:
    at, where = pool.predicted, "At its part of the load a replica has"
    certainty = f"{at.source} to {percent(at.ttft_uncertainty)} and {percent(at.uncertainty)}"
    if pool.role is Role.SERVE:
        times = (
            f"TTFT {seconds(at.ttft_s)} and TPOT {seconds(at.tpot_s)} on average, {seconds(at.ttft_at_share_s)} and"
            f" {seconds(at.tpot_at_share_s)} at {share(at.share)} ({certainty})"
        )
    elif pool.role is Role.PREFILL:
        where = f"{pool.role}: at its knee a replica has"
        times = f"TTFT {seconds(at.ttft_s)} on average, {seconds(at.ttft_at_share_s)} at {share(at.share)}"
    else:
        where = f"{pool.role}: at its knee a replica has"
        times = f"TPOT {seconds(at.tpot_s)} on average, {seconds(at.tpot_at_share_s)} at {share(at.share)}"
    return f"{where} {in_flight(rounded(at.concurrency))}: {times}; {rounded(at.kv_tokens)} KV tokens."


def _flags(pool: Pool) -> str:
    return "Engine: " + ", ".join(f"{name} {value}" for name, value in pool.flags.items()) + "."


def _infeasible(found: Infeasible | None) -> str:
    if found is None:
        return ""
    ratio = max(found.wanted, found.reached) / max(min(found.wanted, found.reached), 1e-12)
    far = f" It is {rounded(ratio)} times off." if found.reached > 0 and ratio >= 1.05 else ""
    return _paragraph(f"Nothing keeps this promise. {found.check} ({found.field}): {found.sentence}.{far}")


def _offer(one: Offer) -> str:
    return f"{one.change}: {one.sentence}."


def _rejected(rejected: Iterable[Rejected]) -> Iterator[str]:
    for one in rejected:
        layout = f" {one.layout}" if one.layout else ""
        yield f"{one.class_name}{layout}, {one.check}: {one.sentence}."


def _list(title: str, items: Iterable[str]) -> str:
    lines = _items(items)
    return "\n".join((f"{title}:", *lines)) if lines else ""


def _items(items: Iterable[str]) -> list[str]:
    return [
        fill(item, _WIDTH, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        for item in items
    ]


def _paragraph(text: str) -> str:
    return fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
