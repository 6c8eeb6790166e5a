"""What the policy is told of one replica: from the pinned plan, and what was observed since. Pure.

| term | from |
| --- | --- |
| knee, mean lengths | the plan (measured where a ModelProfile was, else predicted); without them nothing is decided |
| share | the objective that is furthest from its promise now |
| part of a request's time that is its prompt | the mean lengths, an answer's token as ANSWER_TOKENS of a prompt |
| cold start | the median of the last starts seen, else COLD_START_S |
| correction of the knee | the policy's margin: learned from the promise itself, inside its bounds |
"""

from statistics import median

from modelfleet.api.modeldeployment import Objective
from modelfleet.core.plan import Plan
from modelfleet.core.scaling.policy import Terms

COLD_START_S = 180.0
"""What a start is taken to last before one was seen: image there, a model of some 10 GB, graphs."""

ANSWER_TOKENS = 6.0
"""A token of an answer takes about as much of an engine as so many of a prompt: a step of 12 ms shared by 64 sequences
against 30,000 prompt tokens a second. Only a shift between prompts and answers makes it matter."""

MOST_REPLICAS = 1000
STARTS = 8
"""So many starts are remembered."""
_LEAST_START_S, _MOST_START_S = 5.0, 3600.0


def has_knee(plan: Plan | None) -> bool:
    """Whether the plan says what one replica can do."""
    return plan is not None and plan.planned is not None and plan.planned.hosted.knee_rps > 0


def terms_of(plan: Plan, objective: Objective, starts_s: tuple[float, ...]) -> Terms:
    """The terms for a plan that has a knee, with the share of `objective`. The policy is not told the bounds of the
    spec: what it wants beyond them is said."""
    hosted = plan.planned.hosted if plan.planned else None
    if hosted is None or not hosted.knee_rps:
        raise ValueError("the plan has no knee")
    prompt = max(1.0, hosted.input_tokens - hosted.shared_prefix_tokens)
    answer = max(1.0, hosted.output_tokens)
    return Terms(
        knee_rps=hosted.knee_rps,
        share=float(objective.share.fraction),
        mean_input_tokens=max(1.0, hosted.input_tokens),
        mean_output_tokens=answer,
        prompt_part=prompt / (prompt + ANSWER_TOKENS * answer),
        cold_start_s=cold_start_s(starts_s),
        min_replicas=1,
        max_replicas=MOST_REPLICAS,
        measured=hosted.knee_measured,
        told_rps=hosted.knee_rps if hosted.knee_measured else 0.0,
    )


def cold_start_s(starts_s: tuple[float, ...]) -> float:
    """How long a new replica takes to serve."""
    return median(starts_s) if starts_s else COLD_START_S


def with_start(starts_s: tuple[float, ...], start_s: float) -> tuple[float, ...]:
    """The starts remembered after one more."""
    return (*starts_s, round(min(max(start_s, _LEAST_START_S), _MOST_START_S), 1))[-STARTS:]
