"""What is written before a kill that takes the whole container, and what the operator makes of it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from builders import running
from modelfleet.api.reasons import Reason as ApiReason
from modelfleet.core.failures import pod_failure
from modelfleet_worker.cgroup import Memory, Node
from modelfleet_worker.failure import Failure, Reason
from modelfleet_worker.memory_box import BlackBox, spare_bytes

GIB = 1 << 30
HOST = Memory(
    version=2,
    used_bytes=4 * GIB,
    anonymous_bytes=3 * GIB,
    shared_bytes=0,
    cache_bytes=GIB,
    limit_bytes=4 * GIB,
    oom_kills=0,
)
NODE = Node(total_bytes=64 * GIB, available_bytes=30 * GIB)
ACCOUNT = Failure(
    reason=Reason.HOST_OUT_OF_MEMORY,
    message="The kernel killed it.",
    remedy="Raise it.",
    correction={"flag": "gpu-memory-utilization", "value": "0.87", "before": "0.9"},
)


@pytest.mark.parametrize(
    ("host", "node", "spare"),
    [
        pytest.param(HOST, NODE, 0.6 * GIB, id="file caches are given back"),
        pytest.param(replace(HOST, cache_bytes=0), NODE, -0.4 * GIB, id="the limit is near"),
        pytest.param(replace(HOST, limit_bytes=None), NODE, 28.08 * GIB, id="no limit but the node's"),
        pytest.param(HOST, replace(NODE, available_bytes=GIB), -0.92 * GIB, id="the node has next to nothing left"),
        pytest.param(HOST, None, 0.6 * GIB, id="nothing is known of the node"),
        pytest.param(replace(HOST, limit_bytes=None), None, float("inf"), id="nothing limits it"),
    ],
)
def test_what_is_spare_ends_before_the_kernel_kills(host, node, spare):
    assert spare_bytes(host, node) == pytest.approx(spare)


def test_an_account_is_written_once_a_second_and_cleared_when_it_was_not_needed(tmp_path: Path):
    path, asked = tmp_path / "log", []
    box = BlackBox(path)
    box.clear()
    assert not path.exists(), "what it did not write is not its own"
    for _ in range(5):
        box.keep(lambda: asked.append(1) or ACCOUNT)  # type: ignore[func-returns-value]
    assert json.loads(path.read_text())["provisional"] is True
    assert asked == [1]
    box.clear()
    assert path.read_text() == ""


def test_a_message_that_cannot_be_written_harms_nobody(tmp_path: Path):
    box = BlackBox(tmp_path / "no" / "such")
    box.keep(lambda: ACCOUNT)
    box.clear()


@pytest.mark.parametrize(
    ("word", "reason", "proposes"),
    [
        pytest.param("OOMKilled", ApiReason.HOST_OUT_OF_MEMORY, True, id="the kernel killed the container"),
        pytest.param("Error", ApiReason.WORKER_FAILED, False, id="it was killed for another reason"),
    ],
)
def test_the_operator_believes_it_only_if_the_kubelet_says_so(word, reason, proposes):
    said = replace(ACCOUNT, provisional=True).to_json()
    failure = pod_failure({"status": running(1, {"exitCode": 137, "reason": word, "message": said})})
    assert failure is not None
    assert (failure.reason, failure.proposal is not None) == (reason, proposes)
