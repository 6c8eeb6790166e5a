"""Whether to speculate, and up to which batch (rules 7 and 15). Pure.

A draft proposes k tokens for every sequence and the model verifies them in one step. That is free while arithmetic
idles behind memory, as it does in small batches, and costs as much as it saves when the batch fills the arithmetic. So
it is gated by the concurrency at the target load, and left out where the constraint is cost or capacity, which it never
mends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from modelfleet.core.layout.answer import SpeculationDecision
from modelfleet.core.layout.question import SpeculationMode, SpeculationWish
from modelfleet.core.layout.wording import gib, rounded, share
from modelfleet.core.perf.case import Case
from modelfleet.core.perf.constants import constants_for
from modelfleet.core.perf.memory import kv_bytes_per_token, weights_bytes
from modelfleet.core.perf.prediction import MemoryUse
from modelfleet.core.perf.steps import weigh
from modelfleet.core.perf.terms import Batch, step_terms

WORTH: Final = 1.1
"""Speculation has to be this much faster: below it, the uncertain acceptance rate decides more than the gain."""

_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)

_DRAFT_TOKENS = (1, 2, 3)
"""Acceptance falls with the position; one rate for all of them is not to be trusted further."""

USUAL_ACCEPTANCE: Mapping[str, float] = {
    "ngram": 0.3,
    "suffix": 0.4,
    "draft_model": 0.6,
    "eagle": 0.6,
    "eagle3": 0.7,
    "mtp": 0.8,
}
"""Share of draft tokens accepted, where nobody measured it; the low side of what is published: the DeepSeek-V3 report
gives 85 to 90 % for the next token of MTP, the EAGLE-3 paper 0.7 to 0.8 in chat. It depends on the text."""

_LAYER_DRAFTS = frozenset({"eagle", "eagle3", "mtp"})
"""Methods whose draft is one layer of the model's own kind and an output projection."""


@dataclass(frozen=True, kw_only=True)
class At:
    """The target load as speculation sees it: sequences that decode together in one data-parallel rank."""

    running: float
    context_tokens: float
    bound: str
    """What breaks first beyond the knee; ttft and tpot are latency, kv and throughput capacity."""
    memory: MemoryUse
    kv_tokens_needed: float
    """Of the sequences that run at the target load."""


def decide_speculation(case: Case, wish: SpeculationWish, at: At) -> SpeculationDecision:
    """On with the engine's table by batch size, or off with the reason."""
    if wish.mode is SpeculationMode.OFF:
        return _off("off, as spec.speculation.mode says")
    if wish.method is None:
        return _off("off: no draft is offered; spec.speculation.method names one")
    acceptance = wish.acceptance if wish.acceptance is not None else USUAL_ACCEPTANCE.get(wish.method)
    if acceptance is None or not 0 < acceptance < 1:
        known = ", ".join(sorted(USUAL_ACCEPTANCE))
        return _off(f"off: the acceptance rate of {wish.method} is not known; known methods are {known}")
    table = _table(case, wish, acceptance, at.context_tokens)
    gate = max((last for _, last, tokens in table if tokens), default=0)
    memory = _memory(case, wish, max((tokens for _, _, tokens in table), default=0), gate * at.context_tokens)
    refusal = _refusal(case, at, gate if _at(table, at.running) else 0, memory)
    if refusal:
        return _off(refusal, method=wish.method, acceptance=acceptance, gate=gate)
    tokens = _at(table, at.running)
    gain = _gain(case, wish, acceptance, at.running, at.context_tokens, tokens)
    source = "measured" if wish.acceptance is not None else "assumed"
    sentence = (
        f"{wish.method} with {tokens} draft tokens at the {rounded(at.running)} sequences of the target load: a token"
        f" takes {rounded(gain)} times less at {share(acceptance)} acceptance ({source}), since arithmetic idles; off"
        f" above {gate} sequences; it takes {gib(memory)} of each accelerator"
    )
    return SpeculationDecision(
        on=True,
        sentence=sentence,
        method=wish.method,
        tokens=max(entry for _, _, entry in table),
        gate_sequences=gate,
        table=table,
        acceptance=acceptance,
        memory_bytes=memory,
    )


def _off(
    sentence: str, *, method: str | None = None, acceptance: float | None = None, gate: int = 0
) -> SpeculationDecision:
    return SpeculationDecision(on=False, sentence=sentence, method=method, acceptance=acceptance, gate_sequences=gate)


def _refusal(case: Case, at: At, gate: int, memory: float) -> str:
    """Why it stays off; empty where nothing speaks against it."""
    running = rounded(at.running)
    if at.bound in ("kv", "throughput"):
        what = "the KV cache" if at.bound == "kv" else "throughput"
        return (
            f"off: the constraint is capacity ({what} gives out first), which speculation does not mend; more replicas,"
            " a narrower model or better batching do"
        )
    if at.running > gate:
        pays = f"above {gate} sequences it" if gate else "at no batch it"
        return f"off: {running} sequences run together at the target load, and {pays} pays {WORTH:g} times or more"
    cap = case.setup.sequence_cap
    if case.layout.data > 1 and (cap is None or cap > gate):
        return (
            "off: with attention data parallelism the engine ignores the table by batch size, and the sequence cap"
            f" ({cap or 'none'}) is above the {gate} sequences up to which it pays"
        )
    left = at.memory.kv_bytes - memory
    needed = at.kv_tokens_needed * at.memory.kv_bytes_per_token
    if left < needed:
        return (
            f"off: the draft and its cache take {gib(memory)} of each accelerator, and the {running} sequences of the"
            f" target load need {gib(needed)} of the {gib(at.memory.kv_bytes)} cache"
        )
    return ""


def _table(case: Case, wish: SpeculationWish, acceptance: float, context: float) -> tuple[tuple[int, int, int], ...]:
    """vLLM's inclusive ranges (from, to, draft tokens), ending with the first batch at which it pays no more.

    A mixture may begin with 0: at the smallest batches each verified position reads experts of its own.
    """
    top = case.setup.sequence_cap or _BATCHES[-1]
    best: list[tuple[int, int]] = []
    for batch in _BATCHES:
        if batch > top:
            break
        best.append((batch, _best_tokens(case, wish, acceptance, batch, context)))
        if best[-1][1] == 0 and any(tokens for _, tokens in best):
            break
    ranges: list[tuple[int, int, int]] = []
    before = 0
    for batch, tokens in best:
        last = max(top, batch) if batch == best[-1][0] and not tokens else batch
        if ranges and ranges[-1][2] == tokens:
            ranges[-1] = (ranges[-1][0], last, tokens)
        else:
            ranges.append((before + 1, last, tokens))
        before = last
    if ranges and ranges[-1][2] and ranges[-1][1] < top:
        ranges.append((ranges[-1][1] + 1, top, 0))
    return tuple(ranges)


def _best_tokens(case: Case, wish: SpeculationWish, acceptance: float, batch: int, context: float) -> int:
    """Draft tokens with the largest gain at this batch; 0 where none is worth it or the token budget is too small."""
    budget = case.setup.token_budget or 1 << 30
    gains = {
        tokens: _gain(case, wish, acceptance, batch, context, tokens)
        for tokens in _DRAFT_TOKENS
        if batch * (1 + tokens) <= budget
    }
    tokens = max(gains, key=lambda one: gains[one], default=0)
    return tokens if tokens and gains[tokens] >= WORTH else 0


def _gain(
    case: Case, wish: SpeculationWish, acceptance: float, batch: float, context: float, tokens: int
) -> float:  # fmt: skip
    """How many times less a token takes: tokens a step, 1 + a + ... + a^k, over how much longer the step is."""
    alone = Batch(decode_sequences=batch * case.layout.data, decode_context_tokens=context)
    verified = Batch(
        prefill_tokens=batch * tokens * case.layout.data,
        prefill_context_tokens=context,
        decode_sequences=batch * case.layout.data,
        decode_context_tokens=context,
    )
    constants = constants_for(case)
    plain_s = weigh(step_terms(case, alone), constants).total_s
    step_s = weigh(step_terms(case, verified), constants).total_s + tokens * _draft_s(case, wish, alone, plain_s)
    produced = (1 - acceptance ** (tokens + 1)) / (1 - acceptance)
    return produced * plain_s / step_s


def _draft_s(case: Case, wish: SpeculationWish, alone: Batch, plain_s: float) -> float:
    """One pass of the draft: nothing for methods that look tokens up, one layer and the output projection for heads."""
    if wish.draft is not None:
        draft = Case(facts=wish.draft, hardware=case.hardware, layout=case.layout, setup=case.setup)
        return weigh(step_terms(draft, alone), constants_for(draft)).total_s
    return plain_s * _draft_share(case) if wish.method in _LAYER_DRAFTS else 0.0


def _draft_share(case: Case) -> float:
    """What part of the model a draft of one layer and an output projection is."""
    facts = case.facts
    layer = (facts.parameters - facts.embedding_parameters) / facts.layers
    return (layer + facts.vocabulary * facts.hidden) / facts.parameters


def _memory(case: Case, wish: SpeculationWish, tokens: int, held_tokens: float) -> float:
    """Bytes in one accelerator: draft weights, the draft's cache of `held_tokens`, and the look-ahead slots."""
    scheme, layout = case.setup.weights, case.layout
    per_token = kv_bytes_per_token(case.facts, layout, case.setup.kv)
    slots = (case.setup.sequence_cap or _BATCHES[-1]) * tokens * per_token
    if wish.draft is not None:
        cache = held_tokens * kv_bytes_per_token(wish.draft, layout, case.setup.kv)
        return weights_bytes(wish.draft, scheme, layout) + cache + slots
    if wish.method in _LAYER_DRAFTS:
        weights = _draft_share(case) * weights_bytes(case.facts, scheme, layout)
        return weights + held_tokens * per_token / case.facts.layers + slots
    return slots


def _at(table: tuple[tuple[int, int, int], ...], running: float) -> int:
    return next((tokens for first, last, tokens in table if first <= max(1.0, running) <= last), 0)
