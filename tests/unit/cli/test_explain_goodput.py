"""What `modelfleet explain` says of the promise as it was measured."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from modelfleet.cli.explain import lines

GOODPUT = {
    "window": "5m",
    "share": "99.1%",
    "requestsPerSecond": "11",
    "objectives": [
        {"name": "chat", "target": "99%", "share": "97.2%", "requests": 3400, "outsideRegime": "load"},
        {"name": "batch", "target": "90%", "requests": 0},
    ],
    "outsideRegimeShare": "97.2%",
}
POOL = {
    "class": "h100",
    "predicted": {"ttft": "420 ms", "tpot": "31 ms"},
    "observed": {"ttft": "380 ms", "concurrency": "12"},
}


def told(status: Any) -> list[str]:
    return list(lines({"metadata": {"name": "chat"}, "status": {"observedGeneration": 1, **status}}))


def test_shares_and_what_a_replica_was_seen_to_do_are_told():
    text = "\n".join(told({"goodput": GOODPUT, "plan": {"pools": [POOL]}}))
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert "Goodput of the last 5m" in rows
    assert "chat 97.2% 99% 3400 load" in rows
    assert "batch no request 90% 0 inside" in rows
    assert "Outside the regime 97.2% kept the promise; in the last window inside it: 99.1%." in rows
    assert "time to the first token 420 ms 380 ms" in rows
    assert "requests in flight - 12" in rows


def test_what_was_learned_is_told_with_its_confidence_and_where_it_is_kept():
    learned = {
        "kneeRequestsPerSecond": "2.6",
        "kneeUncertainty": "12",
        "stepTime": "1.3",
        "stepTimeUncertainty": "8",
        "steps": 20000,
        "profile": "chat-observed-1a2b3c4d",
    }
    pool = POOL | {"observed": learned, "predicted": {"kneeRequestsPerSecond": "2.1"}}
    text = " ".join("\n".join(told({"goodput": GOODPUT, "plan": {"pools": [pool]}})).split())
    assert "Knee as requests taught it: 2.6 requests a second ± 12 %; the plan says 2.1." in text
    assert "Steps take 1.3 times what is predicted of them, by about 20,000 steps" in text
    assert "right to ± 8 %. It is kept in ModelProfile chat-observed-1a2b3c4d" in text


def test_without_data_nothing_is_said_of_it():
    assert not any("Goodput" in line for line in told({"plan": {"pools": [POOL]}}))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["objectives", "window", "share", "name"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(goodput=JSON, pools=JSON)
def test_a_block_of_another_version_is_no_traceback(goodput: Any, pools: Any):
    told({"goodput": goodput, "plan": {"pools": pools}})
