"""The rules of HPA, Kthena, AIBrix's APA and KEDA, row by row as they are published."""

from dataclasses import replace

import pytest

from modelfleet.sim.fleet import Observation
from modelfleet.sim.peers.kubernetes import KV, QUEUE, RUNNING, Apa, Hpa, Keda, Kthena
from sim_worlds import replicas, seen


@pytest.mark.parametrize(
    "observed, wanted",
    [
        pytest.param(seen(15, *replicas(4, running=20)), 5, id="25 % over the target: a quarter more"),
        pytest.param(seen(15, *replicas(4, running=17)), 4, id="6 % over is inside the tolerance"),
        pytest.param(seen(15, *replicas(4, running=15)), 4, id="6 % under is inside the tolerance"),
        pytest.param(seen(15, *replicas(4, running=8)), 2, id="half of the target: half"),
        pytest.param(seen(15, *replicas(2, running=160)), 6, id="at most four pods more from two"),
        pytest.param(seen(15, *replicas(10, running=160)), 20, id="at most 100 % more from ten"),
        pytest.param(seen(15, *replicas(2, running=32), pending=2), 4, id="starting pods count as 0 on the way up"),
        pytest.param(seen(15, *replicas(2, running=48), pending=2), 6, id="and more than they will carry adds pods"),
        pytest.param(seen(15, *replicas(2, running=4), pending=2), 3, id="as on target on the way down"),
        pytest.param(seen(15, *replicas(3)), 0, id="no load at all; the fleet keeps the minimum"),
    ],
)
def test_hpa_on_running_requests(observed: Observation, wanted: int) -> None:
    assert Hpa(RUNNING, 16.0).wish(observed) == wanted


@pytest.mark.parametrize(
    "signal, target, observed, wanted",
    [
        pytest.param(QUEUE, 1.0, seen(15, *replicas(2, waiting=2)), 4, id="two waiting for a target of one"),
        pytest.param(KV, 0.5, seen(15, *replicas(2, kv_use=0.75)), 3, id="75 % of the cache for a target of 50 %"),
    ],
)
def test_hpa_on_other_signals(signal: object, target: float, observed: Observation, wanted: int) -> None:
    assert Hpa(signal, target).wish(observed) == wanted  # type: ignore[arg-type]


def test_hpa_goes_down_only_to_the_highest_wish_of_300_s() -> None:
    rule = Hpa(RUNNING, 10.0)
    assert rule.wish(seen(0, *replicas(4, running=10))) == 4
    assert {rule.wish(seen(at, *replicas(4, running=2))) for at in range(15, 300, 15)} == {4}
    assert rule.wish(seen(300, *replicas(4, running=2))) == 1


def test_kthena_takes_the_peak_of_60_s_over_the_target() -> None:
    rule = Kthena(10.0)
    assert rule.wish(seen(0, *replicas(2, running=12, waiting=3))) == 3
    assert rule.wish(seen(15, *replicas(3, running=5))) == 3
    assert rule.wish(seen(60, *replicas(3, running=5))) == 3
    assert rule.wish(seen(360, *replicas(3, running=5))) == 2


def test_kthena_does_not_go_down_in_panic() -> None:
    rule = Kthena(10.0)
    assert rule.wish(seen(0, *replicas(1, running=40))) == 4
    assert rule.wish(seen(45, *replicas(4))) == 4


def test_apa_acts_outside_of_ten_percent_and_at_most_doubles_or_halves() -> None:
    assert Apa(0.5, corrected=True).wish(seen(0, *replicas(4, kv_use=0.54))) == 4
    assert Apa(0.5, corrected=True).wish(seen(0, *replicas(4, kv_use=0.7))) == 6
    assert Apa(0.2, corrected=True).wish(seen(0, *replicas(4, kv_use=1.0))) == 8
    assert Apa(0.5, corrected=True).wish(seen(0, *replicas(8, kv_use=0.01))) == 4


def test_apa_as_shipped_goes_down_to_the_lowest_wish_and_corrected_to_the_highest() -> None:
    shipped, corrected = Apa(0.5, corrected=False), Apa(0.5, corrected=True)
    for rule, wanted in ((shipped, 4), (corrected, 8)):
        rule.wish(seen(0, *replicas(8, kv_use=0.5)))
        rule.wish(seen(200, *replicas(8, kv_use=0.1)))
        assert rule.wish(seen(210, *replicas(8, kv_use=0.1))) == wanted


@pytest.mark.parametrize(
    "change, wanted",
    [
        pytest.param({"arrivals": 0}, 0, id="no traffic for two minutes wants none"),
        pytest.param({"arrivals": 1}, 1, id="any traffic wants one"),
        pytest.param({"replicas": replicas(1, running=6)}, 2, id="five running a pod"),
        pytest.param({"made_tokens": 101 * 15}, 2, id="100 generated tokens a second a pod"),
        pytest.param({"computed_tokens": 1000 * 15}, 2, id="100 prompt tokens a second a pod, one pod at a time"),
    ],
)
def test_keda(change: dict[str, object], wanted: int) -> None:
    observed = replace(seen(15, *replicas(1)), **change)  # type: ignore[arg-type]

    assert Keda().wish(observed) == wanted


def test_keda_adds_a_pod_a_minute_and_takes_one_away_after_300_s() -> None:
    rule = Keda()
    busy = [rule.wish(seen(at, *replicas(1, running=50))) for at in range(0, 75, 15)]
    assert busy == [2, 1, 1, 1, 2]

    quiet = replace(seen(0, *replicas(3)), arrivals=1)
    wishes = {at: rule.wish(replace(quiet, now_s=float(at))) for at in range(75, 480, 15)}
    assert {wishes[at] for at in range(75, 360, 15)} == {3}
    assert [wishes[at] for at in (360, 375, 420)] == [2, 3, 2]
