"""How many replicas keep the promise: the decision, with its reason. Pure; the clock is an argument.

wanted = (forecast peak of the load within the cold start × margin + backlog to work off) / knee of one replica, where
the margin is what was learned about the promise and about the knee.

- The load is work that arrives (history.py); the forecast is the one that has been right (forecast.py).
- The knee is a prediction, so it is corrected by what is observed: late requests against those that the load of a
  replica lets expect. How late requests are at no load is no fault of the knee, and is learned apart.
- The margin is learned from the promise itself: it grows while more requests are late than the promise allows and the
  replicas were busy, and shrinks slowly while they are busy and none is late, so that in the long run the wanted share
  is kept and no more. The share is one of requests, so a moment teaches by what came in it, against the mean of the
  hour. A load far below what the replicas can do says nothing about it. What is late because the load
  grew faster than replicas come teaches it little: they come already.
- Replicas leave when they have not been needed for as long as a new one would take to come, at least five minutes:
  holding one for a cold start costs at most what buying it again would, and what is late meanwhile costs more. What a
  forecast asked for is held for a minute only, or a quarter of a cold start: those that only began to start are given
  back when it does not ask for them any more.
- What comes faster than replicas do cannot be followed. What replicas that only follow would have missed is counted,
  also while they are held. While it is more of an hour's load than the promise allows, what the hour needed is held:
  if it came again, following would break the promise again.
"""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import ceil, exp, sqrt
from typing import TypeVar

from modelfleet.core.scaling.forecast import Forecaster, Way, forecast
from modelfleet.core.scaling.history import History

_LEAST_MARGIN, _MOST_MARGIN = -0.30, 0.5  # logarithms: 0.74 to 1.65
_BUSY = 0.5  # of the knee: below, lateness has another cause than the load
_FORGET_PER_S = 0.0002  # the margin shrinks by this while every request is good: by half in an hour
_RISE = 0.1  # the most that the margin grows within a cold start: what it asks for comes only then
_RISE_SHORT = 0.02  # the same while replicas are short: more of them come already, and it is the forecast that failed
_SURGE = 4.0  # times the hour's mean load: the most that a moment counts by what came in it
_SHORT = 1.15  # of the capacity that serves, margin included: above, the replicas are short
_TRANSIENT_S = 60.0  # what was late for lack of replicas ends within
_STEEP = 12.0  # near the knee what is late grows as this power of the load: 14 to 30 in engines with a plan's limits
_SPREAD = 5.0  # what is late comes in bunches: so many times the variance of independent requests; 1 to 5 at the knee
_ANYWAY = 0.1  # of what the promise allows: what may be late at any load, before idle replicas have told
_SURE_LEAST, _SURE_MOST = 25.0, 400.0  # inverse variances of the knee's logarithm: 20 % as predicted, 5 % at best
_KNEE_STEP, _KNEE_MOST = 0.03, 0.35  # its largest change in a decision, and in all
_BEYOND = 1.25  # of the knee: what is late above tells of queues, not of the knee
_QUIET = 200  # requests at no load, before what is late of them is believed
_IDLE, _TELLING = 0.4, 0.8  # of the knee: below, good requests say nothing about the margin; above, all that they can
BUDGET_S = 3600.0  # what the promise is kept or broken over, and replicas are held for where following breaks it
_HOLD_LEAST_S, _HOLD_MOST_S = 300.0, 900.0  # five minutes: what a promise's worst window is looked at over
_AHEAD_S, _AHEAD_PART = 60.0, 0.25  # what a forecast asks for is held for, and the part of a cold start, if longer
_NEED_S = 60.0  # the load that replicas are held for is a mean over this: noise is not held


N = TypeVar("N", int, float)


class Bound(StrEnum):
    """What won."""

    LOAD = "Load"
    BACKLOG = "Backlog"
    HELD = "Held"
    MINIMUM = "Minimum"
    MAXIMUM = "Maximum"


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a decision depends on besides the sample. `knee_rps`: of one replica, requests of the declared mean lengths,
    at the wanted `share`, the mean of those that stand; `measured`: it is that of a ModelProfile, and `told_rps`
    the plan's, else 0. `knee_of` names what it is of (core/knee.py); empty: nobody said. `prompt_part` of a request's
    engine time is its prompt."""

    knee_rps: float
    share: float
    mean_input_tokens: float
    mean_output_tokens: float
    prompt_part: float
    cold_start_s: float
    min_replicas: int
    max_replicas: int
    measured: bool = False
    told_rps: float = 0.0
    knee_of: str = ""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What was measured since the last decision. `good` of `ended` requests kept the promise; those aborted in time are
    in neither. `output_tokens` are of those that finished. `waiting` are requests that no engine runs yet. `rested_s`:
    before all that, for so long, nobody asked and no replica was there."""

    now_s: float
    arrivals: int
    input_tokens: int
    ended: int
    good: int
    finished: int
    output_tokens: int
    serving: int
    pending_s: tuple[float, ...]
    waiting: int
    rested_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Memory:
    """What a decision remembers; everything in it can be lost at the cost of learning it again."""

    history: History = field(default_factory=History)
    forecaster: Forecaster = field(default_factory=Forecaster)
    log_margin: float = 0.1
    log_knee: float = 0.0
    """The logarithm of the observed knee in units of the told one, and how sure it is: an inverse variance."""
    knee_sure: float = _SURE_LEAST
    told_rps: float = 0.0
    """The measured knee that this is in units of; 0: a predicted one."""
    knee_of: str = ""
    """What it was learned of, and known to be `knee_sure` of; empty: an earlier version did not keep it."""
    knee_ended: int | None = None
    """Requests that ended since that began; None: all that ever did."""
    idle_ended: float = 0.0
    idle_late: float = 0.0
    """Requests that ended within about an hour while replicas were idle, and those of them that were late."""
    output_mean: float = 0.0
    needs: tuple[tuple[float, int], ...] = ()
    """(when, replicas needed by the load that came), as far back as replicas are held for; decreasing."""
    ahead: tuple[tuple[float, int], ...] = ()
    """The same of what forecasts asked for."""
    peaks: tuple[tuple[float, float], ...] = ()
    """(when, requests a second that came), an hour back; decreasing. Held for where following breaks the promise."""
    held: tuple[tuple[float, int], ...] = ()
    """Replicas for the held load, as `needs`: a knee that is corrected up and down moves no number up and down."""
    follows: tuple[tuple[float, int], ...] = ()
    """(when, replicas wanted if nothing were held for a broken promise), a cold start back; increasing."""
    came: float = 0.0
    missed: float = 0.0
    """Work of about an hour, and the part of it that came faster than replicas would have followed."""
    last_s: float | None = None
    short_s: float = float("-inf")
    """When fewer replicas served than the load asked for, the last time."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """`replicas` are wanted; `bound` won; `reason` is one sentence with the numbers. What was needed is held for
    `hold_s`."""

    replicas: int
    bound: Bound
    reason: str
    hold_s: float
    margin: float
    load_rps: float
    peak_rps: float
    way: Way


def decide(sample: Sample, memory: Memory, terms: Terms) -> tuple[Decision, Memory]:
    """The decision at `sample.now_s`, and what to remember."""
    memory = _rested(memory, sample.rested_s)
    elapsed_s = sample.now_s - memory.last_s if memory.last_s is not None else 0.0
    memory = _measured(sample, _of_knee(memory, terms), terms)
    work = _work(sample, memory, terms)
    new_bins = memory.history.bins_until(sample.now_s) if elapsed_s > 0 else 0
    history = memory.history.add(work, sample.now_s)
    found, forecaster = forecast(memory.forecaster, history, new_bins, terms.cold_start_s + elapsed_s)
    memory = replace(memory, history=history, forecaster=forecaster)
    margin = exp(memory.log_margin - memory.log_knee)
    each = terms.knee_rps / margin
    backlog = max(0.0, sample.waiting - sample.serving * 2) / max(terms.cold_start_s, 60.0) / margin
    ahead_rps = max(found.peak, history.mean(30.0)) + backlog
    came_rps = history.mean(_NEED_S) + backlog
    demand = ahead_rps * margin
    wanted = _replicas(ahead_rps, each)
    came = _replicas(max(came_rps, min(ahead_rps, came_rps + each)), each)
    base_s = min(max(terms.cold_start_s, _HOLD_LEAST_S), _HOLD_MOST_S)
    known = memory.needs or ((sample.now_s, sample.serving + len(sample.pending_s)),)
    needs = _needs(known, sample.now_s, came, base_s)
    ahead = _needs(memory.ahead, sample.now_s, wanted, max(_AHEAD_S, _AHEAD_PART * terms.cold_start_s))
    hold_s = BUDGET_S if memory.missed > (1 - terms.share) * memory.came else base_s
    peaks = _needs(memory.peaks, sample.now_s, came_rps, BUDGET_S)
    peak_rps = max(rps for at, rps in peaks if at == sample.now_s or sample.now_s - at < hold_s)
    held_needs = _needs(memory.held, sample.now_s, _replicas(peak_rps, each), base_s)
    held = max(needs[0][1], ahead[0][1], held_needs[0][1])
    replicas = min(max(held, terms.min_replicas), terms.max_replicas)
    bound = _bound(held, wanted, backlog > 0.5 * ahead_rps, terms)
    need = (
        f"{demand:.3g} requests a second ({found.way} forecast, margin {margin:.2f}) at {terms.knee_rps:.3g} a replica"
        f" need {wanted}"
    )
    decision = Decision(
        replicas=replicas,
        bound=bound,
        reason=_reason(need, (bound, replicas), held, hold_s),
        hold_s=hold_s,
        margin=margin,
        load_rps=history.mean(30.0),
        peak_rps=found.peak,
        way=found.way,
    )
    memory = _followed(memory, sample.now_s, terms, max(needs[0][1], ahead[0][1]), each, work)
    return decision, replace(memory, needs=needs, ahead=ahead, held=held_needs, peaks=peaks, last_s=sample.now_s)


def _rested(memory: Memory, rested_s: float) -> Memory:
    """After a time without any load, for which nothing was held: what was needed before it is not needed any more."""
    if memory.last_s is None or rested_s <= 0:
        return memory
    now_s = memory.last_s + rested_s
    kept = exp(-rested_s / BUDGET_S)
    return replace(
        memory,
        history=memory.history.add(0.0, now_s),
        forecaster=memory.forecaster.rested(memory.history.bins_until(now_s)),
        idle_ended=memory.idle_ended * kept,
        idle_late=memory.idle_late * kept,
        needs=(),
        ahead=(),
        peaks=(),
        held=(),
        follows=(),
        came=memory.came * kept,
        missed=memory.missed * kept,
        last_s=now_s,
    )


def _of_knee(memory: Memory, terms: Terms) -> Memory:
    """What was learned of a knee, as far as it holds for the one that is told now:

    | the knee now | what is kept |
    | --- | --- |
    | another that was measured | nothing: what was learned is in it, and begins anew, not on top |
    | of something else, by what serves or by what is promised | the correction, as a guess as unsure as a plan's |
    | else | all |
    """
    told_rps = (terms.told_rps or terms.knee_rps) if terms.measured else 0.0
    if terms.measured and memory.told_rps != told_rps:
        memory = replace(memory, log_knee=0.0, knee_sure=_SURE_LEAST, knee_ended=0)
    elif terms.knee_of and memory.knee_of and terms.knee_of != memory.knee_of:
        memory = replace(memory, knee_sure=_SURE_LEAST, knee_ended=0)
    knee_of, kept_rps = (terms.knee_of, told_rps) if terms.knee_of else (memory.knee_of, told_rps or memory.told_rps)
    return replace(memory, knee_of=knee_of, told_rps=kept_rps)


def _replicas(rps: float, each: float) -> int:
    return max(1, ceil(rps / each - 0.05))


def _work(sample: Sample, memory: Memory, terms: Terms) -> float:
    """Requests that arrived, in requests of the declared mean lengths."""
    prompts = sample.input_tokens / terms.mean_input_tokens
    output = memory.output_mean or terms.mean_output_tokens
    answers = sample.arrivals * output / terms.mean_output_tokens
    return terms.prompt_part * prompts + (1 - terms.prompt_part) * answers


def _measured(sample: Sample, memory: Memory, terms: Terms) -> Memory:
    """With the mean answer, the margin and the share that the ended requests teach."""
    output = memory.output_mean or terms.mean_output_tokens
    if sample.finished:
        weight = min(1.0, sample.finished / 500)
        output += weight * (sample.output_tokens / sample.finished - output)
    if memory.last_s is None:
        return replace(memory, output_mean=output)
    elapsed_s = sample.now_s - memory.last_s
    busy = memory.history.mean(30.0) / (terms.knee_rps * exp(memory.log_knee) * max(sample.serving, 1))
    short_s = sample.now_s if busy * exp(memory.log_margin) > _SHORT else memory.short_s
    short = sample.now_s - short_s < _TRANSIENT_S
    kept: float = exp(-elapsed_s / BUDGET_S)
    settled = not short or short_s == sample.now_s  # what a shortage leaves behind is late at any load
    if settled and not _jumped(sample, memory, terms, elapsed_s):
        memory = _corrected(sample, memory, terms, busy, kept)
    return replace(
        memory,
        output_mean=output,
        log_margin=_learned(sample, memory, terms, (elapsed_s, busy, short)),
        short_s=short_s,
        knee_ended=None if memory.knee_ended is None else memory.knee_ended + sample.ended,
    )


def _jumped(sample: Sample, memory: Memory, terms: Terms, elapsed_s: float) -> bool:
    """Whether more came since the last decision than chance makes of the known load: then what is late now is late of a
    load that is not known yet, and says nothing about the knee. Three standard deviations of Poisson arrivals, whose
    lengths spread as exponential ones do."""
    known = memory.history.mean(30.0) * elapsed_s
    return _work(sample, memory, terms) > known + 3 * sqrt(2 * known)


def _corrected(sample: Sample, memory: Memory, terms: Terms, busy: float, kept: float) -> Memory:
    """With the knee corrected: a Kalman filter on its logarithm, linear around what is expected to be late. Where next
    to nothing is expected, what is late has other causes, and teaches next to nothing."""
    if not sample.ended or busy > _BEYOND:
        return memory
    late = float(sample.ended - sample.good)
    if busy < _IDLE:
        ended = memory.idle_ended * kept + sample.ended
        return replace(memory, idle_ended=ended, idle_late=memory.idle_late * kept + late)
    known = memory.idle_ended > _QUIET
    anyway = sample.ended * (memory.idle_late / memory.idle_ended if known else 0.0)
    expected = sample.ended * min(0.5, (1 - terms.share) * busy**_STEEP)
    slope = _STEEP * expected  # how the expected number falls with the knee's logarithm
    variance = _SPREAD * (expected + max(anyway, _ANYWAY * (1 - terms.share) * sample.ended))
    sure = min(_SURE_MOST, memory.knee_sure + slope**2 / variance)
    step = slope * (expected - max(0.0, late - anyway)) / variance / sure
    log_knee = memory.log_knee + min(max(step, -_KNEE_STEP), _KNEE_STEP)
    return replace(memory, knee_sure=sure, log_knee=min(max(log_knee, -_KNEE_MOST), _KNEE_MOST))


def _learned(sample: Sample, memory: Memory, terms: Terms, seen: tuple[float, float, bool]) -> float:
    """The margin's logarithm; `seen` are the seconds since the last decision, how busy replicas are, and whether they
    are short."""
    if not sample.ended:
        return memory.log_margin
    elapsed_s, busy, short = seen
    allowed = 1 - terms.share
    counts = min(_SURGE, memory.history.mean(30.0) / max(memory.history.mean(BUDGET_S), 1e-9))
    step = _FORGET_PER_S / allowed * (1 - sample.good / sample.ended - allowed) * counts * elapsed_s
    if step < 0:
        step *= min(1.0, max(0.0, (busy - _IDLE) / (_TELLING - _IDLE)))
    else:
        most = (_RISE_SHORT if short else _RISE) * elapsed_s / max(terms.cold_start_s, 60.0)
        step = min(step, most) if busy > _BUSY else 0.0
    return min(max(memory.log_margin + step, _LEAST_MARGIN), _MOST_MARGIN)


def _followed(memory: Memory, now_s: float, terms: Terms, wanted: int, each: float, work: float) -> Memory:
    """With what replicas would have missed that follow the load: of those wanted without an hour's hold, the ones that
    were wanted all through a cold start serve. What is held hides what it is held for, so that what is late cannot tell
    when to end it. `each` is what a replica does, `work` what came since the last decision."""
    follows = tuple(one for one in memory.follows if now_s - one[0] < terms.cold_start_s and one[1] < wanted)
    follows = (*follows, (now_s, wanted))
    elapsed_s = now_s - memory.last_s if memory.last_s is not None else 0.0
    over = max(0.0, memory.history.mean(30.0) - _SHORT * follows[0][1] * each) * elapsed_s
    kept = exp(-elapsed_s / BUDGET_S)
    return replace(memory, follows=follows, came=memory.came * kept + work, missed=memory.missed * kept + over)


def _needs(needs: tuple[tuple[float, N], ...], now_s: float, wanted: N, hold_s: float) -> tuple[tuple[float, N], ...]:
    """The needs of the last `hold_s` that no later one exceeds; the first is the highest."""
    last: tuple[tuple[float, N]] = ((now_s, wanted),)
    return tuple(each for each in needs if now_s - each[0] < hold_s and each[1] > wanted) + last


def _bound(held: int, wanted: int, backlog: bool, terms: Terms) -> Bound:
    if held > terms.max_replicas:
        return Bound.MAXIMUM
    if held < terms.min_replicas:
        return Bound.MINIMUM
    if held > wanted:
        return Bound.HELD
    return Bound.BACKLOG if backlog else Bound.LOAD


def _reason(need: str, decided: tuple[Bound, int], held: int, hold_s: float) -> str:
    bound, replicas = decided
    match bound:
        case Bound.HELD:
            return f"{need}; {held} were needed within the last {hold_s:.0f} s, for which replicas are held"
        case Bound.MAXIMUM:
            return f"{need}; maxReplicas allows {replicas}"
        case Bound.MINIMUM:
            return f"{need}; minReplicas asks for {replicas}"
        case Bound.BACKLOG:
            return f"{need} with the requests that wait"
    return need
