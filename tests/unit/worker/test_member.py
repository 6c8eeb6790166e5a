"""What a member's engine is told: vLLM's multi-node flags and variables for each rank of each layout."""

import pytest

from modelfleet_worker.interfaces import interface_of
from modelfleet_worker.member import Member, engine_args, engine_environment, from_environment
from modelfleet_worker.plan import Group, PlanError

OWN = {
    "MODELFLEET_RANK": "1",
    "MODELFLEET_LEADER": "chat-1a2b3c4d-0.chat-1a2b3c4d.prod.svc",
    "MODELFLEET_GROUP_TOKEN": "token",
    "MODELFLEET_POD_IP": "10.0.0.2",
    "MODELFLEET_NODE": "node-b",
}


def member(rank: int, nodes: int = 2, data: int = 1) -> Member:
    group = Group(nodes=nodes, data=data, master_port=29500)
    return Member(group=group, rank=rank, leader="leader", token="token", address=f"10.0.0.{rank + 1}", node="n")


def test_a_member_is_who_its_pod_says() -> None:
    group = Group(nodes=2, data=1, master_port=29500)
    found = from_environment(group, OWN)
    assert (found.rank, found.leader, found.address, found.node) == (1, OWN["MODELFLEET_LEADER"], "10.0.0.2", "node-b")


@pytest.mark.parametrize("name", OWN)
def test_a_missing_variable_is_named(name: str) -> None:
    with pytest.raises(PlanError, match=f"the variable {name} of the pod is missing"):
        from_environment(Group(nodes=2, data=1, master_port=29500), {**OWN, name: ""})


@pytest.mark.parametrize("rank", ["2", "-1", "one"])
def test_a_rank_outside_the_group_is_refused(rank: str) -> None:
    with pytest.raises(PlanError, match="MODELFLEET_RANK must be a number from 0 to 1, not"):
        from_environment(Group(nodes=2, data=1, master_port=29500), {**OWN, "MODELFLEET_RANK": rank})


def test_ranks_of_one_world_meet_at_the_leader_and_all_but_it_have_no_api() -> None:
    world = ("--nnodes=2", "--master-addr=10.0.0.1", "--master-port=29500")
    leader, worker = engine_args(member(0), "10.0.0.1"), engine_args(member(1), "10.0.0.1")
    assert set(world) <= set(leader) & set(worker)
    assert "--node-rank=0" in leader
    assert "--headless" not in leader
    assert "--node-rank=1" in worker
    assert "--headless" in worker


def test_whole_data_parallel_ranks_on_each_node_report_to_the_leader() -> None:
    leader = engine_args(member(0, nodes=2, data=8), "10.0.0.1")
    worker = engine_args(member(1, nodes=2, data=8), "10.0.0.1")
    shared = {"--data-parallel-size-local=4", "--data-parallel-address=10.0.0.1", "--data-parallel-rpc-port=29501"}
    assert shared <= set(leader) & set(worker)
    assert not any(arg.startswith(("--nnodes", "--data-parallel-start-rank")) for arg in leader)
    assert {"--data-parallel-start-rank=4", "--headless"} <= set(worker)


def test_data_parallel_ranks_that_span_nodes_are_one_world() -> None:
    args = engine_args(member(3, nodes=4, data=2), "10.0.0.1")
    assert {"--nnodes=4", "--node-rank=3", "--data-parallel-address=10.0.0.1", "--headless"} <= set(args)
    assert not any(arg.startswith("--data-parallel-size-local") for arg in args)


def test_the_engine_talks_on_the_pods_own_interface() -> None:
    env = engine_environment(member(1), {}, lambda address: {"10.0.0.2": "eth0"}[address])
    assert (env["VLLM_HOST_IP"], env["GLOO_SOCKET_IFNAME"], env["NCCL_SOCKET_IFNAME"]) == ("10.0.0.2", "eth0", "eth0")
    assert 30 <= int(env["VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS"]) <= 60


def test_an_address_without_an_interface_leaves_the_choice_to_the_engine() -> None:
    assert "GLOO_SOCKET_IFNAME" not in engine_environment(member(1), {}, lambda _: None)


@pytest.mark.parametrize(
    ("address", "name"), [("127.0.0.1", "lo"), ("192.0.2.1", None), ("2001:db8::1", None), ("x", None)]
)
def test_an_interface_is_found_by_its_address(address: str, name: str | None) -> None:
    assert interface_of(address) == name
