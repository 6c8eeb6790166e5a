"""Workers that say nothing for a while and come back: nothing is counted twice, nothing is bought for it."""

from collections.abc import Iterator, Mapping

import pytest

from modelfleet.core.scaling.blame import tally_of
from modelfleet.core.scaling.observed import Look, see
from modelfleet.core.scaling.reading import Histogram, ObjectiveCounts, Outcomes, Reading
from modelfleet.core.scaling.samples import WINDOW_S, PodSamples, Samples, counted
from scaling_worlds import STEP_S, Sampled, sampled

RPS = 10.0
PODS = ("a", "b", "c", "d")
LOOK = Look(promise="p", objectives=("chat",), serving=PODS)

Cut = Mapping[str, tuple[float, float]]


def reading(uid: str, at_s: float) -> Reading:
    """What a pod says that gets ten requests a second, one in ten of them late."""
    count = round(RPS * at_s)
    counts = ObjectiveCounts(
        arrivals=count,
        ended=Outcomes(met=count - count // 10, late_ttft=count // 10),
        input_tokens=Histogram((), (count,), count * 100.0),
    )
    return Reading(pod_uid=uid, at_s=at_s, promise="p", promises={"p": {"chat": counts}})


def looks(cuts: Cut, until_s: float, every_s: float = STEP_S) -> Iterator[tuple[float | None, float]]:
    """The sample's clock, and the requests that came since the look before. Each pod is read at a place of its own
    within `every_s`, except from when to when `cuts` say."""
    readings: dict[str, tuple[Reading, ...]] = {uid: () for uid in PODS}
    cursors = {}
    for step in range(1, round(until_s / STEP_S) + 1):
        now_s = step * STEP_S
        for place, uid in enumerate(PODS):
            at_s = (now_s // every_s) * every_s + place * every_s / len(PODS)
            at_s = at_s if at_s <= now_s else at_s - every_s
            since_s, back_s = cuts.get(uid, (until_s, until_s))
            known = readings[uid] and readings[uid][-1].at_s >= at_s
            if at_s > 0 and not known and not since_s <= at_s < back_s:
                readings[uid] = (*readings[uid], reading(uid, at_s))
        pods = {uid: PodSamples(uid=uid, name=uid, revision="r", readings=readings[uid]) for uid in PODS}
        seen = see(Samples(at_s=now_s, pods=pods), cursors, LOOK)
        cursors = seen.cursors
        yield seen.at_s, seen.total.arrivals


CUTS = [
    pytest.param({"a": (300.0, 600.0)}, id="one of four for five minutes"),
    pytest.param({"a": (300.0, 320.0)}, id="one for less than it takes to be silent"),
    pytest.param({"a": (300.0, 600.0), "b": (450.0, 700.0)}, id="two, one after the other"),
    pytest.param({uid: (300.0, 600.0) for uid in PODS}, id="all, and back at once"),
    pytest.param({uid: (300.0, 600.0 + 15 * at) for at, uid in enumerate(PODS)}, id="all, and back one by one"),
    pytest.param({"a": (300.0, 600.0), "b": (300.0, 601.0)}, id="two of four together"),
]
NEVER_READ = pytest.param({"a": (0.0, 600.0)}, id="one that was never read before")


@pytest.mark.parametrize("cuts", [*CUTS, NEVER_READ])
def test_what_comes_is_counted_once_whoever_is_silent_meanwhile(cuts: Cut) -> None:
    rows = [(at_s, came) for at_s, came in looks(cuts, 900.0) if at_s is not None]
    clock_s, total = rows[-1][0] - rows[0][0], sum(came for _, came in rows[1:])

    assert total == pytest.approx(len(PODS) * RPS * clock_s, rel=0.02)


@pytest.mark.parametrize("cuts", CUTS)
def test_no_stretch_reads_more_or_less_than_what_came_in_it(cuts: Cut) -> None:
    rows = [(at_s, came) for at_s, came in looks(cuts, 900.0) if at_s is not None]
    begin_s, total = rows[0][0], 0.0
    for at_s, came in rows[1:]:
        total += came
        if at_s - begin_s >= 15.0:
            assert total / (at_s - begin_s) == pytest.approx(len(PODS) * RPS, rel=0.1), at_s
            begin_s, total = at_s, 0.0


def test_workers_that_are_read_once_a_minute_are_not_silent_and_the_load_is_what_it_is() -> None:
    rows = [(at_s, came) for at_s, came in looks({}, 1800.0, every_s=60.0) if at_s is not None][30:]

    clock_s, total = rows[-1][0] - rows[0][0], sum(came for _, came in rows[1:])
    assert total == pytest.approx(len(PODS) * RPS * clock_s, rel=0.05)


def test_a_window_holds_its_own_time_of_a_pod_that_was_silent_for_an_hour() -> None:
    now_s = 4000.0
    steps = [reading("a", at_s) for at_s in (390.0, 395.0, now_s - 5.0, now_s)]
    silent = PodSamples(uid="a", name="a", revision="r", readings=tuple(steps))
    others = [
        PodSamples(
            uid=uid, name=uid, revision="r", readings=tuple(reading(uid, now_s - 5.0 * n) for n in range(61)[::-1])
        )
        for uid in "bcd"
    ]
    found = counted(Samples(at_s=now_s, pods={pod.uid: pod for pod in (silent, *others)}), "p", "chat")

    assert found is not None
    assert found.span_s == pytest.approx(WINDOW_S)
    assert found.arrivals_rps == pytest.approx(len(PODS) * RPS, rel=0.02)
    assert found.counts.ended.late_ttft == pytest.approx(0.1 * found.counts.ended.counted, rel=0.05)
    assert found.counts.input_tokens is not None
    assert found.counts.input_tokens.sum == pytest.approx(100.0 * found.counts.arrivals, rel=0.02)
    assert tally_of(silent, now_s, "p", ("chat",)).ended == pytest.approx(RPS * 120.0, rel=0.02)


def busy_fleet(knees: float = 2.4, **scaling: int) -> Sampled:
    """Four replicas or so under a steady load that they carry."""
    fleet = sampled(minReplicas=4, **scaling)
    return fleet.run(120, fleet.knee_rps * knees)


def test_a_worker_that_comes_back_after_five_minutes_buys_no_replica() -> None:
    fleet = busy_fleet()
    (first, *_), before = sorted(fleet.fleet.pods()), len(fleet.numbers)
    fleet.silent = {first}
    fleet.run(300)
    fleet.silent = set()
    fleet.run(120)

    assert set(fleet.numbers[before:]) == {4}
    assert fleet.kept is not None
    assert fleet.kept.ledger.memory.missed < 0.01 * fleet.kept.ledger.memory.came


def test_workers_that_come_back_one_by_one_after_a_cut_of_all_buy_no_replica() -> None:
    fleet = busy_fleet()
    before, names = len(fleet.numbers), sorted(fleet.fleet.pods())
    fleet.silent = set(names)
    fleet.run(300)
    for name in names:
        fleet.silent.discard(name)
        fleet.run(15)
    fleet.run(120)

    assert set(fleet.numbers[before:]) == {4}
    assert fleet.kept is not None
    history = fleet.kept.ledger.memory.history
    assert max(history.bins[-30:]) == pytest.approx(history.mean(450.0), rel=0.1)


def test_the_load_of_a_silent_worker_is_taken_to_be_that_of_the_others() -> None:
    fleet = busy_fleet()
    assert fleet.kept is not None
    load_rps = fleet.kept.load_rps
    fleet.silent = set(sorted(fleet.fleet.pods())[:1])
    for _ in range(20):
        fleet.run(15)
        assert fleet.kept.load_rps == pytest.approx(load_rps, rel=0.1)


def test_workers_that_are_read_once_a_minute_let_replicas_leave() -> None:
    """As through a Prometheus that scrapes once a minute."""
    fleet = sampled()
    fleet.run(200, fleet.knee_rps * 5)
    high = fleet.replicas
    fleet.rps["interactive"] = fleet.knee_rps * 0.4
    for step in range(round(4500 / STEP_S)):
        fleet.silent = {name for at, name in enumerate(sorted(fleet.fleet.pods())) if (step + 3 * at) % 12}
        fleet.run(STEP_S)

    assert high >= 5
    assert fleet.replicas == 1


@pytest.mark.parametrize(
    ("at_s", "every_s", "fresh_s"),
    [
        pytest.param((0, 5, 10), 5, 30, id="every five seconds: half a minute"),
        pytest.param((0, 60, 120), 5, 180, id="asked every five seconds, and scraped once a minute"),
        pytest.param((0,), 60, 180, id="once a minute, before the second reading"),
        pytest.param((0, 20, 40), 20, 60, id="every twenty seconds: three of them"),
        pytest.param((0, 5, 3600), 5, 30, id="a silence is no step"),
        pytest.param((0, 3600), 5, 30, id="nor is one of which only the ends are kept"),
        pytest.param((0, 60, 180), 5, 180, id="a reading that was missed is none either"),
        pytest.param((0, 600, 1200), 5, 180, id="never longer than three minutes"),
        pytest.param((), 5, 30, id="nothing was read yet"),
    ],
)
def test_how_old_a_reading_may_be_follows_how_often_one_comes(
    at_s: tuple[float, ...], every_s: float, fresh_s: float
) -> None:
    readings = tuple(Reading(pod_uid="a", at_s=float(each)) for each in at_s)
    pod = PodSamples(uid="a", name="a", revision="r", readings=readings, every_s=every_s)

    assert pod.fresh_s == fresh_s
    assert pod.fresh(at_s[-1] + fresh_s if at_s else 0.0) is bool(at_s)
    assert not pod.fresh((at_s[-1] if at_s else 0.0) + fresh_s + 1)
