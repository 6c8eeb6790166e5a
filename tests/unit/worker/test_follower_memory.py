"""The memory of a member that is not the leader: looked at before it starts, watched, explained as the leader's is."""

import json
import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from test_memory_part import MIB, SHARE, opens

from group_process import group, group_plan
from modelfleet_worker import follower
from modelfleet_worker.failure import Failure, Reason
from modelfleet_worker.group import Lead, Members
from modelfleet_worker.member import Member
from modelfleet_worker.memory import Memory
from modelfleet_worker.plan import Group, parse_plan
from modelfleet_worker.supervisor import Places
from worker_around import around_in
from worker_process import plan_of, stand_in

MEMBER = Member(
    group=Group(nodes=2, data=1, master_port=1), rank=1, leader="nobody", token="t", address="127.0.0.1", node="node-b"
)
STARTS = "WARNING 11-30 00:33:56 [utils.py:1] CUDA out of memory. Trying again with less."


def places(folder: Path) -> Places:
    paths = {name: folder / name for name in ("runtime", "scratch", "promise", "termination_log")}
    return Places(http_port=1, status_port=1, group_port=1, **paths)


@pytest.fixture
def plan(tmp_path: Path) -> dict[str, Any]:
    return group_plan(plan_of(stand_in(tmp_path)))


@pytest.mark.parametrize(
    ("name", "accelerator_bytes", "reason"),
    [
        pytest.param("h100-idle", 81559 * MIB, None, id="is idle"),
        pytest.param("h100-foreign", 81559 * MIB, Reason.FOREIGN_MEMORY, id="is used by another process"),
        pytest.param("h100-no-handle", 81559 * MIB, Reason.ACCELERATOR_FAULTY, id="is off the bus"),
        pytest.param("h100-idle", 2 * 81559 * MIB, Reason.WRONG_ACCELERATOR, id="is not of its class"),
        pytest.param("no-driver", 81559 * MIB, Reason.ACCELERATOR_UNAVAILABLE, id="has no driver"),
    ],
)
async def test_a_member_starts_only_if_its_accelerator(
    tmp_path: Path,
    plan: dict[str, Any],
    name: str,
    accelerator_bytes: int,
    reason: Reason | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(follower, "Memory", partial(Memory, devices=opens(name)))
    plan["memory"] = {"device": "Cuda", "accelerator_bytes": accelerator_bytes}
    plan["engine"]["args"].append("--pipeline-parallel-size=2")
    failure = await follower.Follower(parse_plan(json.dumps(plan)), MEMBER, places(tmp_path))._check()
    assert (failure.reason if failure else None) == reason


async def test_the_share_that_a_member_s_engine_refuses_is_told_by_all_with_its_step_by_itself(
    tmp_path: Path, plan: dict[str, Any]
) -> None:
    async with group(tmp_path, plan) as made:
        leader = await made.start(0)
        plan["engine"]["env"] |= {"STAND_IN_SAYS": SHARE, "STAND_IN_EXIT": "1"}
        follower = await made.start(1)
        assert [await leader.exit_code(), await follower.exit_code()] == [1, 1]
        told, own = leader.termination, follower.termination
    assert (told["reason"], own["reason"]) == ("MemoryFractionTooHigh", "MemoryFractionTooHigh")
    assert told["message"] == f"Rank 1 on node node-b ended: {own['message']}"
    assert own["correction"] == {"flag": "gpu-memory-utilization", "value": "0.90", "before": "0.92"}
    assert "correction" not in told


async def test_a_member_s_end_is_explained_by_what_came_since_it_served_and_its_page_shows_its_memory(
    tmp_path: Path, plan: dict[str, Any]
) -> None:
    async with group(tmp_path, plan) as made:
        leader = await made.start(0)
        plan["engine"]["env"]["STAND_IN_SAYS"] = STARTS
        follower = await made.start(1)
        await leader.until_ready()
        await follower.until_ready()
        page = await follower.metrics()
        assert page["modelfleet_worker_host_own_bytes"] > MIB
        assert page['modelfleet_worker_state{state="serving"}'] == 1
        os.kill(follower.below[0], signal.SIGKILL)
        assert [await leader.exit_code(), await follower.exit_code()] == [1, 1]
        assert follower.termination["reason"] == "EngineDied"
        assert "no kill for lack of memory was counted" in follower.termination["message"]


@pytest.mark.looptime
async def test_a_member_that_ends_while_the_leader_accounts_for_its_own_end_is_not_why(tmp_path: Path) -> None:
    around = around_in(tmp_path)
    lead = Lead(MEMBER, 1, around.progress, lambda name: None)
    members = Members(around, MEMBER, lead)
    await members.hear_out()
    lead.lose(Failure(reason=Reason.ENGINE_DIED, message="Its peer was gone.", remedy=""))
    own = Failure(reason=Reason.HOST_OUT_OF_MEMORY, message="The kernel killed it.", remedy="")
    assert await members.explain(own) is own
    await members.hear_out()
    assert (await members.explain(own)).message == "Its peer was gone."
