"""Our policy in the simulator decides what the operator would, and is told no more than the operator is."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from builders import START
from modelfleet.core.scaling.memory import Kept
from modelfleet.core.scaling.policy import Terms
from modelfleet.core.scaling.reading import Histogram, ObjectiveCounts, Outcomes, Reading
from modelfleet.core.scaling.samples import PodSamples, Samples
from modelfleet.core.scaling.scaled import Case, decide_scaled
from modelfleet.core.scaling.seats import Seats
from modelfleet.core.scaling.terms import COLD_START_S, terms_of
from modelfleet.sim.fleet import Observation, ReplicaView
from modelfleet.sim.ours import Ours
from modelfleet.sim.requests import End, Outcome, Request
from scaling_worlds import sampled
from sim_worlds import QUIET

TERMS = Terms(
    knee_rps=2.0,
    share=0.99,
    mean_input_tokens=1000.0,
    mean_output_tokens=100.0,
    prompt_part=0.6,
    cold_start_s=COLD_START_S,
    min_replicas=1,
    max_replicas=12,
)
STEP_S = 5.0


@dataclass(frozen=True, kw_only=True)
class Step:
    """What happens in one tick of 5 s: `count` requests arrive and end, the first `late` of them late."""

    count: int
    serving: int
    late: int = 0
    tokens: int = 1000
    pending: int = 0
    age_s: float = 30.0
    draining: int = 0
    waiting: int = 0
    starts_s: tuple[float, ...] = ()


def observation(step: Step, now_s: float) -> Observation:
    def ended(number: int) -> Outcome:
        ttft_s = 9.0 if number < step.late else 0.1
        return Outcome(Request(now_s, step.tokens, 100), End.FINISHED, now_s, ttft_s=ttft_s, replica=0)

    return replace(
        QUIET,
        now_s=now_s,
        replicas=tuple(ReplicaView(n, 1, step.waiting if not n else 0, 0, 0.1) for n in range(step.serving)),
        pending_s=(30.0,) * step.pending,
        ages_s=(step.age_s,) * step.pending,
        draining=step.draining,
        arrivals=step.count,
        arrived_input_tokens=step.count * step.tokens,
        ended=tuple(ended(number) for number in range(step.count)),
        starts_s=step.starts_s,
    )


def played(steps: list[Step], terms: Terms = TERMS) -> list[int]:
    """The wishes of our policy in the simulator."""
    ours = Ours(terms, 2.0, 0.05)
    return [ours.wish(observation(step, STEP_S * number)) for number, step in enumerate(steps, 1)]


@pytest.mark.parametrize(
    ("moving", "replicas"),
    [
        pytest.param({"pending": 1}, 6, id="one starts"),
        pytest.param({"draining": 1}, 6, id="one drains"),
        pytest.param({}, 1, id="none starts or drains"),
    ],
)
def test_none_leaves_while_one_starts_or_drains(moving: dict[str, int], replicas: int) -> None:
    calm = Step(count=1, serving=6)
    steps = [calm] * 118 + [replace(calm, **moving)] * 60

    assert played(steps)[-1] == replicas


def spike(begins: int, **then: float) -> list[Step]:
    """Two serve; for half a minute six times as much comes, and then what came before it, while three that were wanted
    for it start."""
    calm, high = Step(count=10, serving=2), Step(count=60, serving=2)
    return [*[calm] * begins, *[high] * 6, *[replace(calm, pending=3, **then)] * 20]


@pytest.mark.parametrize("begins", [pytest.param(130, id="known"), pytest.param(60, id="in the first ten minutes")])
def test_what_began_to_start_for_a_load_that_is_over_leaves_and_what_serves_stays(begins: int) -> None:
    wishes = played(spike(begins))

    assert max(wishes) >= 5
    assert 2 <= wishes[-1] < max(wishes)


@pytest.mark.parametrize(
    "then",
    [
        pytest.param({"age_s": COLD_START_S / 2}, id="it is half there"),
        pytest.param({"age_s": 900.0}, id="it takes longer than was known"),
        pytest.param({"draining": 1}, id="one drains"),
        pytest.param({"waiting": 50}, id="requests wait that did not before"),
    ],
)
def test_what_starts_stays(then: dict[str, float]) -> None:
    wishes = played(spike(130, **then)[:137] if "waiting" in then else spike(130, **then))

    assert wishes[-1] == max(wishes) >= 5


def test_of_what_was_there_at_the_beginning_none_leaves_while_it_starts_and_the_load_is_not_known() -> None:
    """A new fleet is as large as the declared load needs: the first to serve has not seen that load yet."""
    coming = [Step(count=1, serving=1, pending=5)] * 100

    assert set(played(coming)) == {6}


def test_none_leaves_in_the_first_ten_minutes_in_which_the_load_is_not_known() -> None:
    wishes = played([Step(count=1, serving=6)] * 125)

    assert wishes[:119] == [6] * 119  # until 595 s
    assert wishes[-1] < 6


def test_none_leaves_while_requests_pile_up() -> None:
    growing = [Step(count=1, serving=6, waiting=7 + number) for number in range(10)]

    assert played([Step(count=1, serving=6)] * 118 + growing)[-1] == 6


def pair(steps: list[Step]) -> tuple[Ours, Ours]:
    """Two of our policy that have seen the same."""
    both = Ours(TERMS, 2.0, 0.05), Ours(TERMS, 2.0, 0.05)
    for ours in both:
        for number, step in enumerate(steps, 1):
            ours.wish(observation(step, STEP_S * number))
    return both


def test_prompts_are_not_known_before_their_requests_end() -> None:
    """The operator counts tokens of finished requests only."""
    ours, other = pair([Step(count=10, serving=1)] * 12)
    short = replace(observation(Step(count=20, serving=1), 65.0), ended=())
    long = replace(short, arrived_input_tokens=900_000)
    after = [observation(Step(count=10, serving=1), at_s) for at_s in (70.0, 75.0, 80.0)]

    assert [ours.wish(one) for one in (short, *after)] == [other.wish(one) for one in (long, *after)]
    assert ours.last == other.last


def test_requests_that_found_no_replica_are_counted_by_no_worker() -> None:
    ours, other = pair([Step(count=10, serving=1)] * 12)
    step = observation(Step(count=20, serving=1), 65.0)
    lost = tuple(Outcome(Request(64.0, 1000, 100), End.FAILED, 64.0) for _ in range(50))
    with_lost = replace(step, arrivals=step.arrivals + 50, ended=(*step.ended, *lost))

    assert ours.wish(step) == other.wish(with_lost)
    assert ours.last == other.last


def test_where_no_replica_serves_the_number_stays_and_what_was_counted_is_not_lost() -> None:
    ours, _ = pair([Step(count=10, serving=2)] * 12)

    assert ours.wish(observation(Step(count=900, serving=0, pending=2), 65.0)) == 2
    calm = [observation(Step(count=10, serving=2), at_s) for at_s in (70.0, 75.0, 80.0)]
    assert max(ours.wish(one) for one in calm) > 2


def test_a_cold_start_is_what_the_operator_takes_it_for_until_starts_were_seen() -> None:
    """Needs are held for a cold start: nobody tells the operator that one takes 900 s."""
    told = replace(TERMS, cold_start_s=900.0)
    calm = Step(count=1, serving=6)
    steps = [calm] * 119 + [Step(count=60, serving=6), *[calm] * 90]

    assert played(steps, told) == played(steps, TERMS)
    slow = [*steps[:118], replace(calm, starts_s=(900.0,)), *steps[119:]]
    assert played(slow, told)[-1] > played(steps, told)[-1]


def story() -> Iterator[Step]:
    """Three stand and one is needed; the load rises, late and with longer prompts, while replicas start; then it falls,
    and what is not needed any more drains one by one. In percent of a knee of 100 requests a tick."""
    yield from [Step(count=40, serving=3)] * 125
    yield from [Step(count=40 + 8 * number, serving=2, pending=3, waiting=number // 3) for number in range(25)]
    yield Step(count=240, serving=5, tokens=1300, starts_s=(95.0, 105.0, 100.0))
    yield from [Step(count=240, serving=5, tokens=1300, late=6)] * 20
    yield from [Step(count=40, serving=5, draining=number > 60 and number % 12 < 9) for number in range(110)]
    yield from [Step(count=420, serving=5)] * 4
    yield from [Step(count=40, serving=5, pending=2)] * 30


def operator(steps: list[Step], template: Case) -> list[int]:
    """The same steps, decided by core/scaling/scaled.py."""
    kept: Kept | None = None
    pods = {f"p{number}": ObjectiveCounts() for number in range(12)}
    pods["p0"] = _counts(0, 0, 0)
    total = late = tokens = 0
    started: dict[str, float] = {}
    numbers = []
    for number, step in enumerate([replace(steps[0], count=0, late=0), *steps]):
        at_s = 100.0 + STEP_S * number
        total, late, tokens = total + step.count, late + step.late, tokens + step.count * step.tokens
        pods["p0"] = _counts(total, late, tokens)
        started |= {f"new{index}": taken_s for index, taken_s in enumerate(step.starts_s)}
        case = replace(
            template,
            seats=_seats(step, started),
            now=START,
            samples=Samples(at_s=at_s, pods={uid: _pod(uid, at_s, one, step, template) for uid, one in pods.items()}),
        )
        kept = decide_scaled(case, kept)
        numbers.append(kept.replicas)
    return numbers[1:]


def _counts(total: int, late: int, tokens: int) -> ObjectiveCounts:
    return ObjectiveCounts(
        arrivals=total,
        ended=Outcomes(met=total - late, late_ttft=late),
        input_tokens=Histogram((), (total,), tokens),
        output_tokens=Histogram((), (total,), 100 * total),
    )


def _seats(step: Step, started: dict[str, float]) -> Seats:
    return Seats(
        serving=tuple(f"p{index}" for index in range(step.serving)),
        standing=step.serving + step.pending,
        pending_s=(30.0,) * step.pending,
        made_at=() if step.draining else (START - timedelta(seconds=step.age_s),) * step.pending,
        moving=bool(step.pending or step.draining),
        starting=frozenset(f"new{index}" for index in range(step.pending)),
        starts_s=started,
    )


def _pod(uid: str, at_s: float, counts: ObjectiveCounts, step: Step, template: Case) -> PodSamples:
    promises = {template.promise: {"interactive": counts}}
    reading = Reading(
        pod_uid=uid,
        at_s=at_s,
        state="serving",
        promise=template.promise,
        promises=promises,
        waiting=step.waiting if uid == "p0" else 0,
    )
    return PodSamples(uid=uid, name=uid, revision="", readings=(reading,))


def test_the_same_story_gives_the_operators_numbers() -> None:
    scaling = sampled().run(10, 1.0).scaling
    assert scaling is not None
    template = replace(scaling.case, stored={})
    terms = terms_of(template.plan, template.objectives[0], ())
    bounds = template.scaling
    knee = terms.knee_rps * STEP_S / 100
    steps = [
        replace(
            step,
            count=round(step.count * knee),
            late=round(step.late * knee),
            tokens=round(step.tokens / 1000 * terms.mean_input_tokens),
        )
        for step in story()
    ]

    numbers = played(steps, replace(terms, min_replicas=bounds.min_replicas, max_replicas=bounds.max_replicas))

    assert numbers == operator(steps, template)
    assert len(set(numbers)) >= 5
    assert max(numbers) < bounds.max_replicas
