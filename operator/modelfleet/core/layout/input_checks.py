"""What is wrong with a question, and where: one sentence each, with what would work. Pure.

Fatal problems make a plan meaningless; the others are advice beside it. What depends on a class (what fits, what the
fabric joins) is judged where layouts are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

from modelfleet.core.layout.answer import Problem
from modelfleet.core.layout.question import (
    LengthRegime,
    Objective,
    Pins,
    Question,
    Strategy,
    context_of,
    objective_place,
    place,
)
from modelfleet.core.layout.wording import exact_seconds

_HUGE_RPS = 1e6
_HUGE_TOKENS = 100_000_000
_MOST_DEGREE = 1024
_MOST_OBJECTIVES = 4


def problems_of(question: Question) -> tuple[Problem, ...]:
    """All problems, fatal ones first."""
    found = list(_empty(question))
    if not found:
        for index, objective in enumerate(question.objectives):
            found += _numbers(question, index, objective)
            found += _units(question, index, objective)
        found += _number(question)
        found += _context(question)
        found += _pins(question)
        found += _bounds(question)
    return tuple(sorted(found, key=lambda one: not one.fatal))


def _empty(question: Question) -> Iterator[Problem]:
    for name, values, what in (
        ("variants", question.variants, "weights to serve"),
        ("candidates", question.candidates, "a class to run on"),
        ("objectives", question.objectives, "a promise to keep"),
    ):
        if not values:
            yield Problem(field=place(question, name), sentence=f"{place(question, name)} is empty: name {what}")


def _number(question: Question) -> Iterator[Problem]:
    if len(question.objectives) > _MOST_OBJECTIVES:
        field = place(question, "objectives")
        sentence = f"{field} has {len(question.objectives)} promises: at most {_MOST_OBJECTIVES} can share a deployment"
        yield Problem(field=field, sentence=sentence)


def _numbers(question: Question, index: int, one: Objective) -> Iterator[Problem]:
    """Zero, negative, infinite and huge numbers."""

    def bad(key: str, sentence: str) -> Problem:
        field = objective_place(question, index, key)
        return Problem(field=field, sentence=f"{field} {sentence}")

    for key, value in (("ttft", one.ttft_s), ("tpot", one.tpot_s)):
        if not (isfinite(value) and value > 0):
            yield bad(key, f"is {value:g} s: write a duration above zero, such as 500ms")
    if not 0 < one.share < 1:
        yield bad("share", f"is {one.share:g}: write a share above 0% and below 100%, such as 99%")
    loads = [value for value in (one.load_rps, one.load_concurrency) if value is not None]
    if len(loads) != 1:
        yield bad("load", "needs exactly one of requestsPerSecond and concurrency")
    elif not (isfinite(loads[0]) and 0 < loads[0] <= _HUGE_RPS):
        yield bad("load", f"is {loads[0]:g}: write a number above 0 and at most {_HUGE_RPS:,.0f}")
    for key, sentence in _lengths(one.lengths):
        yield bad(key, sentence)


def _lengths(regime: LengthRegime) -> Iterator[tuple[str, str]]:
    for side, p50, p95 in (
        ("inputTokens", regime.input_p50_tokens, regime.input_p95_tokens),
        ("outputTokens", regime.output_p50_tokens, regime.output_p95_tokens),
    ):
        if not 0 < p50 <= _HUGE_TOKENS:
            yield f"lengths.{side}.p50", f"is {p50}: write a number of tokens of at least 1"
        elif not p50 <= p95 <= _HUGE_TOKENS:
            yield f"lengths.{side}.p95", f"is {p95}, below p50 ({p50}) or beyond any context: p95 is at least p50"
    most = regime.input_max_tokens
    if most is not None and most < regime.input_p95_tokens:
        p95 = regime.input_p95_tokens
        yield "lengths.inputTokens.max", f"is {most}, below p95 ({p95}): it is the longest prompt of the promise"
    if not 0 <= regime.shared_prefix_tokens <= regime.input_p50_tokens:
        shared = regime.shared_prefix_tokens
        yield (
            "lengths.sharedPrefixTokens",
            f"is {shared}: it is a part of the input, so at most its p50 ({regime.input_p50_tokens})",
        )


def _units(question: Question, index: int, one: Objective) -> Iterator[Problem]:
    """Durations of a size that only a wrong unit explains: advice, since the number may be meant."""

    def advice(key: str, value: float, meant: str, why: str) -> Problem:
        field = objective_place(question, index, key)
        sentence = f"{field} is {_duration(value)}, {why}: if {meant} was meant, write {meant}"
        return Problem(field=field, sentence=sentence, fatal=False)

    if isfinite(one.ttft_s) and one.ttft_s >= 600:
        yield advice("ttft", one.ttft_s, _as_milliseconds(one.ttft_s), "longer than any caller waits")
    elif 0 < one.ttft_s < 0.002:
        yield advice("ttft", one.ttft_s, _a_thousand_times(one.ttft_s), "shorter than a request's way to the engine")
    if isfinite(one.tpot_s) and one.tpot_s >= 10:
        yield advice("tpot", one.tpot_s, _as_milliseconds(one.tpot_s), "slower than anyone reads")
    elif 0 < one.tpot_s < 0.0005:
        yield advice("tpot", one.tpot_s, _a_thousand_times(one.tpot_s), "faster than any accelerator makes a token")


def _duration(value: float) -> str:
    return f"{value / 3600:g}h" if value >= 3600 else exact_seconds(value)


def _as_milliseconds(value: float) -> str:
    """The same digits in milliseconds: 500 h and 500 s are 500ms."""
    digits = value / 3600 if value >= 3600 else value
    return f"{digits:g}ms"


def _a_thousand_times(value: float) -> str:
    return exact_seconds(value * 1000)


def _context(question: Question) -> Iterator[Problem]:
    longest = min(variant.facts.max_context_tokens for variant in question.variants)
    for name, value in (
        ("max_context_tokens", question.max_context_tokens),
        ("pins.engine_context_tokens", question.pins.engine_context_tokens),
    ):
        field = place(question, name)
        if value is not None and value < 1:
            yield Problem(field=field, sentence=f"{field} is {value}: write at least 1")
        elif value is not None and value > longest:
            model = question.variants[0].facts.name
            yield Problem(
                field=field, sentence=f"{field} is {value:,}, and {model} has a context of {longest:,} tokens"
            )
    both = (question.max_context_tokens, question.pins.engine_context_tokens)
    if None not in both and both[0] != both[1]:
        field, other = place(question, "pins.engine_context_tokens"), place(question, "max_context_tokens")
        yield Problem(field=field, sentence=f"{field} is {both[1]} and {other} is {both[0]}: leave one of them out")
    limit = context_of(question, longest)
    for index, one in enumerate(question.objectives):
        yield from _too_long(question, index, one.lengths, limit)


def _too_long(question: Question, index: int, regime: LengthRegime, limit: int) -> Iterator[Problem]:
    field = objective_place(question, index, "lengths")
    half = regime.input_p50_tokens + regime.output_p50_tokens
    most = regime.input_p95_tokens + regime.output_p95_tokens
    if half > limit:
        yield Problem(
            field=field,
            sentence=f"{field}: half of the requests need {half:,} tokens of input and output, and the context limit is"
            f" {limit:,}; shorten the lengths or raise {place(question, 'max_context_tokens')}",
        )
    elif most > limit:
        yield Problem(
            field=field,
            sentence=f"{field}: p95 input and p95 output together are {most:,} tokens, past the context limit of"
            f" {limit:,}; such answers are cut",
            fatal=False,
        )


def _pins(question: Question) -> Iterator[Problem]:
    pins = question.pins
    for name in ("tensor", "pipeline", "data", "sequence_cap", "token_budget"):
        value = getattr(pins, name)
        most = _MOST_DEGREE if name in ("tensor", "pipeline", "data") else _HUGE_TOKENS
        if value is not None and not 1 <= value <= most:
            field = place(question, f"pins.{name}")
            yield Problem(field=field, sentence=f"{field} is {value}: write a number from 1 to {most:,}")
    if pins.memory_fraction is not None and not 0 < pins.memory_fraction <= 1:
        field = place(question, "pins.memory_fraction")
        yield Problem(field=field, sentence=f"{field} is {pins.memory_fraction:g}: a share of the memory, such as 0.9")
    if pins.block_tokens is not None and (pins.block_tokens < 1 or pins.block_tokens % 8):
        field = place(question, "pins.block_tokens")
        yield Problem(field=field, sentence=f"{field} is {pins.block_tokens}: the engine takes multiples of 16")
    if pins.token_budget and pins.sequence_cap and pins.token_budget < pins.sequence_cap:
        field, other = place(question, "pins.token_budget"), place(question, "pins.sequence_cap")
        yield Problem(
            field=field,
            sentence=f"{field} is {pins.token_budget}, below {other} ({pins.sequence_cap}): each running sequence takes"
            " one token of a step",
        )
    yield from _strategy(question, pins)


def _strategy(question: Question, pins: Pins) -> Iterator[Problem]:
    """Pins that contradict each other; the one to change is named."""
    field = place(question, "pins.strategy")
    degrees = {name: getattr(pins, name) for name in ("tensor", "pipeline", "data")}
    above = [name for name, value in degrees.items() if value is not None and value > 1]
    if pins.strategy is Strategy.REPLICAS and above:
        other = place(question, f"pins.{above[0]}")
        sentence = (
            f"{field} is Replicas, one accelerator each, and {other} is {degrees[above[0]]}: leave out one of them"
        )
        yield Problem(field=field, sentence=sentence)
    if pins.strategy is Strategy.SHARDED and all(value == 1 for value in degrees.values()):
        sentence = f"{field} is Sharded, and tensor, pipeline and data are all 1: leave one of them to the planner"
        yield Problem(field=field, sentence=sentence)


def _bounds(question: Question) -> Iterator[Problem]:
    bounds, pins = question.bounds, question.pins
    low, high = place(question, "bounds.min_replicas"), place(question, "bounds.max_replicas")
    if bounds.min_replicas < 0:
        yield Problem(field=low, sentence=f"{low} is {bounds.min_replicas}: write at least 1")
    if bounds.max_replicas is not None and bounds.max_replicas < max(1, bounds.min_replicas):
        yield Problem(field=high, sentence=f"{high} is {bounds.max_replicas}, below {low} ({bounds.min_replicas})")
    most = bounds.max_accelerators
    if most is None:
        return
    field = place(question, "bounds.max_accelerators")
    one = (pins.tensor or 1) * (pins.pipeline or 1) * (pins.data or 1)
    least = one * max(1, bounds.min_replicas)
    if most < least:
        what = f"of the pinned layout take {least}" if one > 1 else f"take at least {least}, one each"
        yield Problem(
            field=field,
            sentence=f"{field} is {most}, and {low} ({bounds.min_replicas}) {what}: raise the one or lower the other",
        )
