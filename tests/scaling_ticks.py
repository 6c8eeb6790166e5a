"""Inputs of single decisions about replicas: ticks of mean requests, all good."""

from datetime import UTC, datetime

from modelfleet.core.scaling.policy import Sample, Terms
from modelfleet.core.scaling.weighing import Inputs, Limit

TERMS = Terms(
    knee_rps=2.0,
    share=0.99,
    mean_input_tokens=1000.0,
    mean_output_tokens=100.0,
    prompt_part=0.5,
    cold_start_s=180.0,
    min_replicas=1,
    max_replicas=1000,
)
AT = datetime(2026, 1, 1, tzinfo=UTC)


def inputs(now_s: float, arrivals: int, current: int, low: int, high: int, *, keep: str = "") -> Inputs:
    """A tick of mean requests, all good."""
    sample = Sample(
        now_s=now_s,
        arrivals=arrivals,
        input_tokens=arrivals * 1000,
        ended=arrivals,
        good=arrivals,
        finished=arrivals,
        output_tokens=arrivals * 100,
        serving=current,
        pending_s=(),
        waiting=0,
    )
    lows, highs = (Limit("minReplicas", low),), (Limit("maxReplicas", high),)
    return Inputs(sample=sample, terms=TERMS, current=current, lows=lows, highs=highs, keep=keep)
