"""Whether one request kept its promise: the rule, on numbers. Pure; standard library only (the engine's Python)."""

from dataclasses import dataclass
from enum import StrEnum

from modelfleet_worker.promise import Objective


class Ending(StrEnum):
    """How a request ended, before its times are looked at.

    FINISHED: the engine says of each of its sequences that it finished, and the answer was whole and no error.
    UNMEASURED: a good answer without a sequence of the engine, such as that of a request run in the background.
    """

    FINISHED = "finished"
    REFUSED = "refused"
    FAILED = "failed"
    ABORTED = "aborted"
    INVALID = "invalid"
    UNMEASURED = "unmeasured"


class Verdict(StrEnum):
    """What is counted, once a request.

    The promise's share is MET over the sum of the first six: MET, LATE_*, REFUSED (told to come again) and FAILED (an
    error, also one inside a stream; a client that gave up when its first token was late already). ABORTED (by the
    client, before that), INVALID (4xx) and UNMEASURED stand apart.
    """

    MET = "met"
    LATE_TTFT = "late_ttft"
    LATE_TPOT = "late_tpot"
    LATE_BOTH = "late_both"
    REFUSED = "refused"
    FAILED = "failed"
    ABORTED = "aborted"
    INVALID = "invalid"
    UNMEASURED = "unmeasured"


VERDICTS = tuple(Verdict)


class Share(StrEnum):
    """What a request counts in: the promise; apart, because its prompt is longer than promised; apart, because it
    arrived when no replica ran and the objective excuses its first caller."""

    PROMISE = "promise"
    LONGER = "longer"
    FIRST_CALLER = "first_caller"


SHARES = tuple(Share)


@dataclass(frozen=True)
class Measured:
    """A request as the engine saw it. `ttft_s`: from when it entered the system to its first generated token, on any
    of its sequences. `tpot_s`: (last token - first token) / (tokens - 1), of its slowest sequence; 0 where none has two
    tokens. Tokens are those of its longest prompt and its longest answer."""

    ttft_s: float
    tpot_s: float
    input_tokens: int
    output_tokens: int


def share(objective: Objective, input_tokens: int, *, at_zero: bool) -> Share:
    """What a request counts in. A request that was refused before its prompt was read has 0 `input_tokens`."""
    if objective.input_max_tokens is not None and input_tokens > objective.input_max_tokens:
        return Share.LONGER
    if at_zero and objective.first_caller_waits_s is not None:
        return Share.FIRST_CALLER
    return Share.PROMISE


def judge(
    objective: Objective, counts_in: Share, ending: Ending, measured: Measured | None, waited_s: float = 0.0
) -> Verdict:
    """The verdict. Equal to a limit is inside it. `waited_s`: for how long it waited for its first token."""
    limit_s = objective.ttft_s
    if counts_in is Share.FIRST_CALLER and objective.first_caller_waits_s is not None:
        limit_s = objective.first_caller_waits_s
    if ending is Ending.ABORTED and waited_s > limit_s:
        return Verdict.FAILED  # a replica that is so slow that its clients go would look well
    if ending is not Ending.FINISHED:
        return Verdict(ending.value)
    if measured is None:
        return Verdict.UNMEASURED
    late_ttft, late_tpot = measured.ttft_s > limit_s, measured.tpot_s > objective.tpot_s
    if late_ttft:
        return Verdict.LATE_BOTH if late_tpot else Verdict.LATE_TTFT
    return Verdict.LATE_TPOT if late_tpot else Verdict.MET
