"""When an engine hangs, and what is never taken for that: looks every two seconds, as they come."""

from collections.abc import Iterable
from dataclasses import replace
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelfleet_worker.liveness import BUSY_S, DOUBTFUL_S, SILENT_S, STOPPED_S, Judge, Look, Verdict

PERIOD_S = 2.0
ASLEEP = Look(at_s=0.0, work=True, numbers=(5.0,), wanted_s=0.0)
CORES = 1.0


def looks(seconds: float, *, work: bool = True, cores: float = 0.0, stopped: tuple[str, ...] = ()) -> Iterable[Look]:
    """An engine whose numbers stand still for so long, while it uses `cores`."""
    for step in range(int(seconds / PERIOD_S) + 1):
        at_s = step * PERIOD_S
        yield replace(ASLEEP, at_s=at_s, work=work, wanted_s=at_s * cores, stopped=stopped)


def judged(seen: Iterable[Look]) -> tuple[Verdict, float, Judge]:
    """The last verdict, when it came, and the judge."""
    judge, verdict, at_s = Judge(), Verdict.ALIVE, 0.0
    for look in seen:
        verdict, at_s = judge.see(look), look.at_s
        if verdict is Verdict.HUNG:
            break
    return verdict, at_s, judge


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(looks(3600, work=False), id="nothing to do for an hour"),
        pytest.param((replace(look, numbers=(look.at_s,)) for look in looks(3600)), id="numbers that move"),
        pytest.param((replace(look, numbers=(look.at_s // 6,)) for look in looks(3600)), id="a step in six seconds"),
        pytest.param((replace(look, at_s=look.at_s * 10) for look in looks(3600)), id="looks that are far apart"),
        pytest.param(
            (replace(look, token=look.at_s % 10 == 0, work=True) for look in looks(3600)),
            id="clients that do not read, while a token comes when asked for",
        ),
    ],
)
def test_an_engine_is_alive_with(seen: Iterable[Look]) -> None:
    verdict, _, judge = judged(seen)
    assert (verdict, judge.why) == (Verdict.ALIVE, "")


@pytest.mark.parametrize(
    ("seen", "by_s", "words"),
    [
        pytest.param(looks(60), SILENT_S, "its processes sleep", id="waiting requests and sleeping processes"),
        pytest.param(
            (replace(look, numbers=None) for look in looks(60)), SILENT_S, "sleep", id="numbers that cannot be read"
        ),
        pytest.param(looks(60, stopped=("VLLM::Worker (7)",)), STOPPED_S, "VLLM::Worker (7)", id="a stopped process"),
        pytest.param(
            looks(60, work=False, stopped=("VLLM::Worker (7)",)), STOPPED_S, "stopped", id="a stopped idle process"
        ),
        pytest.param(looks(3600, cores=CORES), BUSY_S, "are busy", id="an hour of a busy processor"),
    ],
)
def test_an_engine_hangs_with(seen: Iterable[Look], by_s: float, words: str) -> None:
    verdict, at_s, judge = judged(seen)
    assert verdict is Verdict.HUNG
    assert at_s <= by_s + PERIOD_S
    assert words in judge.why


def test_an_engine_that_waits_for_a_disk_is_not_asleep() -> None:
    seen = [replace(look, wanted_s=inf if look.at_s % 10 == 0 else 0.0) for look in looks(60)]
    assert judged(seen)[0] is Verdict.DOUBTFUL


def test_an_idle_engine_whose_api_hangs_is_found_though_its_processes_were_not_looked_at_before() -> None:
    idle = [replace(look, wanted_s=None) for look in looks(600, work=False)]
    hung = [replace(look, at_s=look.at_s + 602.0, wanted_s=5.0) for look in looks(60)]
    verdict, at_s, _ = judged([*idle, *hung])
    assert verdict is Verdict.HUNG
    assert at_s <= 602.0 + SILENT_S + 2 * PERIOD_S


def test_hanging_is_found_within_30_seconds_unless_the_processor_is_used() -> None:
    assert max(SILENT_S, STOPPED_S) + 2 * PERIOD_S < 30


def test_a_compiler_or_a_long_prefill_has_five_minutes_as_vllm_itself_gives_a_step() -> None:
    verdict, _, _ = judged(looks(300, cores=CORES))
    assert verdict is Verdict.DOUBTFUL


def test_a_token_is_asked_for_only_after_a_while_without_movement() -> None:
    verdict, _, _ = judged(looks(DOUBTFUL_S - PERIOD_S))
    assert verdict is Verdict.ALIVE
    judge = Judge()
    verdicts = [judge.see(look) for look in looks(DOUBTFUL_S)]
    assert verdicts[-1] is Verdict.DOUBTFUL


def test_a_process_that_is_stopped_and_woken_is_not_given_up() -> None:
    judge = Judge()
    for look in looks(120, work=False):
        stopped = ("VLLM::Worker (7)",) if look.at_s % 10 < 6 else ()
        assert judge.see(replace(look, stopped=stopped)) is Verdict.ALIVE


def test_a_process_that_ran_between_looks_at_which_it_was_stopped_is_not_given_up() -> None:
    judge = Judge()
    for look in looks(120, work=False):
        woken = replace(look, stopped=("VLLM::Worker (7)",), stopped_wanted_s=look.at_s // 8)
        assert judge.see(woken) is Verdict.ALIVE


def test_a_worker_that_was_frozen_itself_counts_anew() -> None:
    judge = Judge()
    for look in looks(SILENT_S - PERIOD_S):
        judge.see(look)
    thawed_s = 1000.0
    assert judge.see(replace(ASLEEP, at_s=thawed_s)) is Verdict.ALIVE
    assert judge.see(replace(ASLEEP, at_s=thawed_s + PERIOD_S)) is Verdict.ALIVE


@given(
    st.lists(
        st.builds(
            Look,
            at_s=st.just(0.0),
            work=st.sampled_from([True, True, True, False]),
            numbers=st.sampled_from([None, (1.0,), (1.0,), (1.0,), (2.0,), (1.0, 2.0)]),
            wanted_s=st.sampled_from([0.0, 0.0, 0.0, 0.5, inf]),
            token=st.sampled_from([False, False, False, True]),
        ),
        max_size=60,
    )
)
def test_the_verdicts_are_the_same_if_processors_are_looked_at_only_when_nothing_moves(seen: list[Look]) -> None:
    always, seldom, wanted_s = Judge(), Judge(), 0.0
    for step, one in enumerate(seen):
        wanted_s += one.wanted_s or 0.0
        look = replace(one, at_s=step * PERIOD_S, wanted_s=wanted_s)
        spared = look if seldom.stands(look.numbers) else replace(look, wanted_s=None)
        assert (seldom.see(spared), seldom.why) == (always.see(look), always.why)
