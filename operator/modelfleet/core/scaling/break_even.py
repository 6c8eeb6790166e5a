"""What going to zero saves and costs, from what was measured. Pure; advice, and nothing is decided from it.

A replica that is given back for a gap and started again saves its accelerators for the gap, less `after`, in which it
stands idle first, less the start, in which it is paid for and answers nothing. So gaps above after + start save.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Record:
    """What was seen. `span_s`: how long it was counted; `at_zero_s` and `wakes`: in it. `start_p50_s` and
    `start_p90_s`: of the starts that were measured, None before the first. `accelerators`: of one replica."""

    span_s: float
    at_zero_s: float
    wakes: int
    after_s: float
    accelerators: int
    start_p50_s: float | None = None
    start_p90_s: float | None = None


def break_even_s(after_s: float, start_s: float) -> float:
    """The length of a pause above which giving a replica back saves accelerator time, in seconds."""
    return after_s + start_s


def saved_hours(record: Record) -> float:
    """Accelerator-hours that were not used, less those of starts; below zero: going to zero cost more than it saved."""
    starts_s = record.wakes * (record.start_p50_s or 0.0)
    return (record.at_zero_s - starts_s) * record.accelerators / 3600


def advice(record: Record) -> str:
    """The record in a sentence; empty before anything was measured."""
    said = []
    if record.span_s > 0 and record.at_zero_s > 0:
        hours = saved_hours(record)
        kept = "saved" if hours >= 0 else "cost"
        share = min(1.0, record.at_zero_s / record.span_s)
        said.append(
            f"at zero {share:.0%} of {_span(record.span_s)}, woken {_times(record.wakes)}, which {kept}"
            f" {abs(hours):.3g} accelerator-hours net of the starts"
        )
    if record.start_p50_s is not None and record.start_p90_s is not None:
        said.append(f"the first caller waits {spoken(record.start_p90_s)} at p90")
        least = break_even_s(record.after_s, record.start_p50_s)
        said.append(f"pauses longer than {spoken(least)} save ({spoken(record.after_s)} idle and a start)")
    if record.wakes and saved_hours(record) < 0:
        said.append("a longer toZero.after, or minReplicas of 1, costs less")
    return "; ".join(said)


def spoken(seconds: float) -> str:
    """A time as people say it: 40 s, 3 min 10 s, 2 h 5 min."""
    whole = max(0, round(seconds))
    hours, minutes, rest = whole // 3600, whole % 3600 // 60, whole % 60
    parts = [(hours, "h"), (minutes, "min"), (0 if hours else rest, "s")]
    return " ".join(f"{number} {unit}" for number, unit in parts if number) or "0 s"


def _span(seconds: float) -> str:
    days = seconds / 86_400
    return f"the last {days:.3g} days" if days >= 1 else f"the last {spoken(seconds)}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
