"""How much an engine lets in before it answers 503: the work that can still begin inside the promise. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from modelfleet.core.layout.answer import Check, Reason
from modelfleet.core.layout.wording import percent, seconds
from modelfleet.core.perf.overload import HELD

_SINCE = (0, 32)
"""vLLM's first minor version with --max-num-queued-tokens and --max-num-queued-reqs."""


_STEPS = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
"""Of a decade."""


@dataclass(frozen=True)
class Admission:
    """Flags, empty where the engine has none, and why."""

    flags: dict[str, str]
    reason: Reason


def version_of(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: 0.32.1rc2 is (0, 32, 1); empty where there are none."""
    parts: list[int] = []
    for part in text.strip().lstrip("v").split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        parts.append(int(digits))
    return tuple(parts)


def decide_admission(
    version: str, *, ttft_s: float, prefill_s: float, prefill_tokens_per_s: float, in_flight: int
) -> Admission:
    """`prefill_s` is what a prompt's own prefill takes of `ttft_s`; the rest may be spent waiting.

    max-num-queued-tokens = (ttft − own prefill) × prefill rate: a prompt behind more is late before it begins.
    max-num-queued-reqs counts requests in flight: `in_flight`, which overload may hold all the time (perf.overload). It
    is not rounded up: goodput falls steeply above it.
    """
    slack_s = max(0.0, ttft_s - prefill_s)
    tokens = max(1, int(slack_s * prefill_tokens_per_s))
    if version_of(version) < _SINCE:
        known = f"engine {version}" if version else "an engine of unknown version"
        sentence = f"no limit: {known} has no admission flags (vLLM has them since 0.32), so overload queues"
        return Admission({}, Reason(check=Check.ADMISSION, sentence=sentence))
    sentence = (
        f"over {_coarse(tokens):,} waiting prompt tokens ({seconds(slack_s)} of waiting that the first token can"
        f" afford) or {in_flight:,} requests in flight the engine answers 503: with so many all the time it still gives"
        f" {percent(HELD)} of the knee's goodput"
    )
    flags = {"max-num-queued-tokens": str(_coarse(tokens)), "max-num-queued-reqs": str(in_flight)}
    return Admission(flags, Reason(check=Check.ADMISSION, sentence=sentence))


def _coarse(value: int) -> int:
    """Rounded up on a coarse scale, so that noise in the load seldom changes a flag."""
    unit = int(10 ** max(0, len(str(value)) - 1))
    return next(int(step * unit) for step in _STEPS if int(step * unit) >= value)
