"""The rules of Knative, AIBrix's KPA, KubeAI and Ray Serve, row by row as they are published."""

from modelfleet.sim.peers.concurrency import AibrixKpa, Kpa, KubeAi, RayServe
from sim_worlds import replicas, seen


def test_kpa_takes_the_mean_of_60_s_over_the_target() -> None:
    rule = Kpa(10.0)
    assert rule.wish(seen(0, *replicas(3, running=10))) == 3
    assert rule.wish(seen(58, *replicas(3, running=14))) == 4
    assert rule.wish(seen(62, *replicas(4, running=4))) == 3


def test_kpa_panics_at_twice_the_replicas_and_does_not_go_down_until_60_s_after() -> None:
    rule = Kpa(10.0)
    assert rule.wish(seen(0, *replicas(2, running=30))) == 6
    assert rule.wish(seen(10, *replicas(2), pending=4)) == 6
    assert rule.wish(seen(59, *replicas(6))) == 6
    assert rule.wish(seen(61, *replicas(6))) == 3


def test_kpa_at_most_halves() -> None:
    assert Kpa(10.0).wish(seen(0, *replicas(8))) == 4


def test_aibrix_kpa_as_shipped_forgets_the_number_of_pods() -> None:
    assert AibrixKpa(10.0, corrected=False).wish(seen(0, *replicas(4, running=10))) == 1
    assert AibrixKpa(10.0, corrected=True).wish(seen(0, *replicas(4, running=10))) == 4


def test_aibrix_kpa_does_not_go_down_in_panic() -> None:
    assert AibrixKpa(10.0, corrected=True).wish(seen(0, *replicas(1, running=25), pending=4)) == 5


def test_kubeai_takes_the_mean_of_ten_minutes() -> None:
    rule = KubeAi(100.0)
    assert rule.wish(seen(0, *replicas(1, running=300))) == 3
    assert rule.wish(seen(300, *replicas(3, running=100))) == 3
    assert rule.wish(seen(601, *replicas(3, running=100))) == 3


def test_kubeai_goes_down_at_the_third_low_decision_in_a_row() -> None:
    rule = KubeAi(100.0)
    assert [rule.wish(seen(at, *replicas(4, running=10))) for at in (0, 10, 20)] == [4, 4, 1]


def test_ray_serve_goes_up_after_30_s_of_the_same_wish() -> None:
    rule = RayServe(2.0)
    wishes = [rule.wish(seen(at, *replicas(1, running=6))) for at in (0, 15, 29, 30)]
    assert wishes == [1, 1, 1, 3]


def test_ray_serve_goes_down_after_600_s_of_the_same_wish() -> None:
    rule = RayServe(2.0)
    wishes = [rule.wish(seen(at, *replicas(3, running=1))) for at in (0, 300, 599, 600)]
    assert wishes == [3, 3, 3, 2]


def test_ray_serve_begins_anew_when_the_wish_turns() -> None:
    rule = RayServe(2.0)
    rule.wish(seen(0, *replicas(1, running=6)))
    rule.wish(seen(31, *replicas(1, running=2)))
    assert rule.wish(seen(62, *replicas(1, running=6))) == 1
