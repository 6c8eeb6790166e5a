"""A group over several nodes, as processes on this machine with the stand-in: it starts, drains and ends as one."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from group_process import Group, group, group_plan
from stand_in_engine import WORKER_TITLE
from worker_process import Worker, living, pid_titled, plan_of, stand_in

TOKENS = 4000  # a stream that outlasts every story


@pytest.fixture
def plan(tmp_path: Path) -> dict[str, Any]:
    """Two pipeline stages on two nodes."""
    under_test = stand_in(tmp_path, token_s="0.01", slow_while=str(tmp_path / "slow"))
    value = plan_of(under_test, drain_s=60, propagation_s=0.2)
    value["engine"]["args"].append("--pipeline-parallel-size=2")
    return group_plan(value)


@pytest.fixture
async def pair(tmp_path: Path, plan: dict[str, Any]) -> AsyncIterator[Group]:
    async with group(tmp_path, plan) as made:
        yield made


async def under_way(leader: Worker) -> "asyncio.Task[str]":
    """A stream whose first piece came: what its client got further, an error event or a broken connection."""
    began = asyncio.Event()

    async def read() -> str:
        async with leader.stream(TOKENS) as answer:
            await answer.content.readline()
            began.set()
            try:
                return (await answer.content.read()).decode()
            except aiohttp.ClientError as error:
                return f'"error" {type(error).__name__}'

    stream = asyncio.create_task(read())
    await began.wait()
    return stream


async def ends(*workers: Worker) -> list[Any]:
    """The termination messages of workers that all end as failed."""
    assert await asyncio.gather(*(worker.exit_code() for worker in workers)) == [1] * len(workers)
    return [worker.termination for worker in workers]


async def test_a_group_serves_once_every_member_is_there_whoever_comes_first(pair: Group) -> None:
    follower = await pair.start(1)
    await follower.until(lambda: _answers(follower, "/livez"))
    assert (await follower.status("/startupz")).status == 503
    leader = await pair.start(0)
    await asyncio.gather(leader.until_ready(), follower.until_ready())
    answer = await leader.api("/v1/completions", body={"model": "tiny", "prompt": "hi", "max_tokens": 3})
    assert (answer.status, answer.json["usage"]["completion_tokens"]) == (200, 3)
    assert (await follower.status("/startupz")).status == 200


async def test_a_killed_engine_of_a_member_ends_all_with_its_name(pair: Group) -> None:
    leader, follower = await pair.start_all()
    stream = await under_way(leader)
    os.kill(pid_titled(follower.below, WORKER_TITLE), signal.SIGKILL)
    assert '"error"' in await stream
    told, own = await ends(leader, follower)
    assert own["message"].startswith("The engine ended while it served")
    assert told["message"] == f"Rank 1 on node node-b ended: {own['message']}"
    assert told["reason"] == own["reason"] == "EngineDied"


async def test_a_killed_engine_of_the_leader_ends_its_members_with_its_name(pair: Group) -> None:
    leader, follower = await pair.start_all()
    below = [*leader.below, *follower.below]
    os.kill(pid_titled(leader.below, WORKER_TITLE), signal.SIGKILL)
    own, told = await ends(leader, follower)
    assert told["message"] == f"Rank 0 on node node-a ended: {own['message']}"
    assert not living(below)


@pytest.mark.parametrize("rank", [0, 1])
async def test_a_member_that_vanishes_is_lost_to_the_others(pair: Group, rank: int) -> None:
    workers = await pair.start_all()
    for pid in [workers[rank].process.pid, *workers[rank].below]:  # as all processes of a container end with the first
        os.kill(pid, signal.SIGKILL)
    (told,) = await ends(workers[1 - rank])
    assert told["reason"] == "GroupMemberLost"
    assert told["message"].startswith(f"Rank {rank} on node {'node-b' if rank else 'node-a'} ")


async def test_a_frozen_member_is_found_and_named(pair: Group) -> None:
    leader, follower = await pair.start_all()
    stream = await under_way(leader)
    os.kill(pid_titled(follower.below, WORKER_TITLE), signal.SIGSTOP)
    assert '"error"' in await stream
    told, own = await ends(leader, follower)
    assert (told["reason"], own["reason"]) == ("EngineHung", "EngineHung")
    assert told["message"] == f"Rank 1 on node node-b ended: {own['message']}"
    assert "has been stopped by a signal" in own["message"]


@pytest.mark.thorough
async def test_members_that_restart_meet_again(pair: Group) -> None:
    leader, follower = await pair.start_all()
    os.kill(pid_titled(follower.below, WORKER_TITLE), signal.SIGKILL)
    await ends(leader, follower)
    leader, follower = await pair.start_all()
    assert (await leader.api("/v1/models")).status == 200


async def test_a_drain_finishes_its_stream_and_outlasts_no_member(pair: Group, tmp_path: Path) -> None:
    leader, follower = await pair.start_all()
    slow = tmp_path / "slow"
    slow.touch()  # the stream does not end before the leader has come so far
    async with leader.stream(100) as answer:
        await answer.content.readline()
        follower.terminate()  # alone: the leader drains because it hears of it
        await leader.until(lambda: _is_not_ready(leader))
        leader.terminate()
        await leader.until(lambda: _refuses(leader))
        assert follower.process.poll() is None, "the leader needs it for the stream"
        slow.unlink()
        text = (await answer.content.read()).decode()
    assert '"completion_tokens": 100' in text
    assert '"error"' not in text
    assert [await leader.exit_code(), await follower.exit_code()] == [0, 0]
    assert (leader.termination, follower.termination) == (None, None)


async def test_a_stranger_does_not_join(tmp_path: Path, plan: dict[str, Any]) -> None:
    async with group(tmp_path, plan) as made:
        leader = await made.start(0)
        await leader.until(lambda: _waits_for_members(leader))
        plan["limits"]["startDeadline_s"] = 2  # so that the stranger gives up while the leader is there
        (own,) = await ends(await made.start(1, token="another"))
        assert (await leader.status("/readyz")).status == 503
    assert "the leader refused: it is the leader of another replica" in own["message"]
    assert own["reason"] == "EngineStartTimeout"


async def test_a_leader_without_its_members_names_them(tmp_path: Path, plan: dict[str, Any]) -> None:
    plan["limits"]["startDeadline_s"] = 3
    async with group(tmp_path, plan) as made:
        (told,) = await ends(await made.start(0))
    assert told["message"] == "The group did not come together within 3 s: rank 1 did not join."
    assert told["reason"] == "EngineStartTimeout"


async def test_a_member_without_a_leader_says_what_it_waits_for(tmp_path: Path, plan: dict[str, Any]) -> None:
    plan["limits"]["startDeadline_s"] = 1
    async with group(tmp_path, plan) as made:
        (own,) = await ends(await made.start(1))
    assert "localhost cannot be reached" in own["message"]


async def _answers(worker: Worker, path: str) -> bool:
    try:
        return (await worker.status(path)).status == 200
    except OSError:
        return False


async def _refuses(worker: Worker) -> bool:
    return (await worker.api("/v1/models")).status == 503


async def _is_not_ready(worker: Worker) -> bool:
    return (await worker.status("/readyz")).status == 503


async def _waits_for_members(leader: Worker) -> bool:
    try:
        return bool((await leader.status("/startupz")).json["start"]["phase"] == "members")
    except OSError:
        return False
