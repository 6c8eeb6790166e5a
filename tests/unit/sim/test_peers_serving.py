"""The rules made for model serving, row by row as they are published: WVA, the SLO ratio, Dynamo's planner."""

from dataclasses import replace

import pytest

from modelfleet.sim.fleet import Observation, ReplicaView
from modelfleet.sim.peers.serving import Dynamo, Known, SloRatio, WvaOne, WvaTwo
from modelfleet.sim.requests import End, Outcome, Request
from sim_worlds import replicas, seen

KNOWN = Known(
    ttft_s=1.0,
    tpot_s=0.050,
    input_tokens=1000.0,
    output_tokens=200.0,
    kv_tokens=100_000,
    sequence_cap=64,
    token_budget=2048,
    prompt_tokens_per_s=20_000.0,
    decode_batch=32.0,
    decode_step_s=0.040,
)


@pytest.mark.parametrize(
    "observed, wanted",
    [
        pytest.param(seen(30, *replicas(2, kv_use=0.5)), 2, id="the spare is right"),
        pytest.param(seen(30, *replicas(2, kv_use=0.75)), 3, id="less than 0.1 of the cache to spare"),
        pytest.param(seen(30, *replicas(2, waiting=3)), 3, id="less than 3 places in the queue to spare"),
        pytest.param(seen(30, *replicas(2, kv_use=0.9)), 3, id="all are saturated"),
        pytest.param(
            seen(30, ReplicaView(0, 0, 0, 0, 0.9), ReplicaView(1, 0, 0, 0, 0.3)), 2, id="a saturated one is left out"
        ),
        pytest.param(seen(30, *replicas(2, kv_use=0.75), pending=1), 3, id="nothing while a pod starts"),
        pytest.param(seen(30, *replicas(3, kv_use=0.4)), 2, id="two would carry it"),
        pytest.param(seen(30, *replicas(3, kv_use=0.5)), 3, id="two would have too little to spare"),
        pytest.param(seen(30, *replicas(1)), 1, id="the last one stays"),
    ],
)
def test_wva_v1(observed: Observation, wanted: int) -> None:
    assert WvaOne().wish(observed) == wanted


def test_wva_v1_looks_at_the_highest_of_a_minute() -> None:
    rule = WvaOne()
    rule.wish(seen(0, *replicas(2, kv_use=0.75)))
    assert rule.wish(seen(30, *replicas(2, kv_use=0.5))) == 3


def test_wva_v1_goes_down_only_to_the_highest_wish_of_240_s() -> None:
    rule = WvaOne()
    rule.wish(seen(0, *replicas(3, kv_use=0.5)))
    assert rule.wish(seen(210, *replicas(3, kv_use=0.1))) == 3
    assert rule.wish(seen(270, *replicas(3, kv_use=0.1))) == 2


@pytest.mark.parametrize(
    "kv_use, waiting, wanted",
    [
        pytest.param(0.5, 0, 4, id="use is between 0.70 and 0.85 of what four have"),
        pytest.param(0.9, 5, 6, id="saturated at 90 %: the queue adds its tokens to the demand"),
        pytest.param(0.1, 0, 1, id="0.70 of one is enough for it"),
    ],
)
def test_wva_v2(kv_use: float, waiting: int, wanted: int) -> None:
    assert WvaTwo(replace(KNOWN, sequence_cap=1024)).wish(seen(30, *replicas(4, kv_use=kv_use, waiting=waiting))) == (
        wanted
    )


def ended(ttft_s: float, tpot_s: float) -> tuple[Outcome, ...]:
    return (Outcome(Request(0.0, 1, 1), End.FINISHED, 1.0, ttft_s=ttft_s, tpot_s=tpot_s),)


@pytest.mark.parametrize(
    "ttft_s, tpot_s, pending, wanted",
    [
        pytest.param(0.5, 0.010, 0, 4, id="a half of the limit is between 0.40 and 0.55"),
        pytest.param(1.1, 0.010, 0, 8, id="twice the threshold: twice the replicas"),
        pytest.param(0.1, 0.055, 0, 8, id="the worse of both ratios"),
        pytest.param(9.0, 0.010, 0, 8, id="no more than twice at a time"),
        pytest.param(1.1, 0.010, 4, 8, id="times ready over provisioned"),
        pytest.param(0.1, 0.010, 0, 3, id="below 0.40 one less"),
    ],
)
def test_slo_ratio(ttft_s: float, tpot_s: float, pending: int, wanted: int) -> None:
    observed = replace(seen(15, *replicas(4), pending=pending), ended=ended(ttft_s, tpot_s))

    assert SloRatio(KNOWN).wish(observed) == wanted


def test_slo_ratio_goes_down_one_in_120_s_and_up_once_in_60_s() -> None:
    rule = SloRatio(KNOWN)
    low = replace(seen(0, *replicas(4)), ended=ended(0.1, 0.01))
    assert [rule.wish(replace(low, now_s=float(at))) for at in (0, 60, 119, 120)] == [3, 4, 4, 3]
    rule = SloRatio(KNOWN)
    high = replace(seen(0, *replicas(4)), ended=ended(1.1, 0.01))
    assert [rule.wish(replace(high, now_s=float(at))) for at in (0, 30, 60)] == [8, 4, 8]


@pytest.mark.parametrize(
    "running, queued, pending, wanted",
    [
        pytest.param(20, 0, 0, 2, id="inside the limits, and one alone would not be"),
        pytest.param(50, 0, 0, 3, id="all are slower than the ITL limit"),
        pytest.param(20, 30_000, 0, 3, id="the queues of all are longer than the TTFT limit"),
        pytest.param(50, 0, 1, 3, id="nothing while one starts"),
        pytest.param(4, 0, 0, 1, id="one alone would keep 80 % of the limits"),
    ],
)
def test_dynamo_fast_loop(running: int, queued: int, pending: int, wanted: int) -> None:
    views = tuple(ReplicaView(number, running, 0, queued, 0.1) for number in range(2))

    assert Dynamo(KNOWN).wish(seen(5, *views, pending=pending)) == wanted


def test_dynamo_slow_loop_sets_a_floor_from_rate_and_lengths_each_180_s() -> None:
    rule = Dynamo(KNOWN)
    load = replace(seen(5, *replicas(1)), arrivals=40, arrived_input_tokens=40_000)
    assert rule.wish(load) == 3  # 8 a second: 0.4 of a replica for prompts, 2 of 4 a second for answers
    assert rule.wish(replace(load, now_s=100.0, arrivals=400, arrived_input_tokens=400_000)) == 3
    assert rule.wish(replace(load, now_s=185.0, arrivals=400, arrived_input_tokens=400_000)) > 3
