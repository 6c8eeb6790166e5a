"""Who this worker is in a group over several nodes, and what its engine is told of that. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from modelfleet.api import names
from modelfleet_worker.plan import Group, PlanError

_EXECUTE_TIMEOUT_S = 60
"""vLLM's own bound on one step with a peer that does not answer. It is the last resort: a lost or stalled member is
found by group.py and frozen.py in less, and one that takes no step and sleeps by liveness.py."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """One worker of a group. `leader` is the name or address of rank 0, `address` and `node` are this worker's own;
    `token` is known to the members of this replica, so that none joins another one's group by mistake."""

    group: Group
    rank: int
    leader: str
    token: str
    address: str
    node: str


def from_environment(group: Group, own: Mapping[str, str]) -> Member:
    """The member that the pod's variables name. Raises PlanError for one that is missing or makes no sense."""

    def variable(name: str) -> str:
        if not own.get(name):
            raise PlanError(f"plan.json has a group, and the variable {name} of the pod is missing")
        return own[name]

    text = variable(names.RANK_VARIABLE)
    if not text.isdecimal() or int(text) >= group.nodes:
        raise PlanError(f"{names.RANK_VARIABLE} must be a number from 0 to {group.nodes - 1}, not {text[:40]!r}")
    return Member(
        group=group,
        rank=int(text),
        leader=variable(names.LEADER_VARIABLE),
        token=variable(names.GROUP_TOKEN_VARIABLE),
        address=variable(names.POD_IP_VARIABLE),
        node=variable(names.NODE_VARIABLE),
    )


def engine_args(member: Member, leader_address: str) -> tuple[str, ...]:
    """vLLM's multi-node flags for this member; the sizes of the layout stand in the plan's own arguments.

    Whole data-parallel ranks on each node need no common process group: each node's engines report to the leader's API
    server. Otherwise all nodes are one world of tensor and pipeline ranks (config/parallel.py and engine/arg_utils.py
    of vLLM 0.32).
    """
    group, args = member.group, ["--distributed-executor-backend=mp"]
    whole_ranks = group.data > 1 and group.data % group.nodes == 0
    if not whole_ranks:
        args += [
            f"--nnodes={group.nodes}",
            f"--node-rank={member.rank}",
            f"--master-addr={leader_address}",
            f"--master-port={group.master_port}",
        ]
    if group.data > 1:
        args += [f"--data-parallel-address={leader_address}", f"--data-parallel-rpc-port={group.master_port + 1}"]
    if whole_ranks:
        local = group.data // group.nodes
        args.append(f"--data-parallel-size-local={local}")
        if member.rank:
            args.append(f"--data-parallel-start-rank={member.rank * local}")
    if member.rank:
        args.append("--headless")
    return tuple(args)


def engine_environment(
    member: Member, plan_env: Mapping[str, str], interface: Callable[[str], str | None]
) -> dict[str, str]:
    """Where this member's engine listens and talks, but for what the plan says itself. `interface` gives the network
    interface that has an address; without one gloo takes what the host's name resolves to, which may be loopback."""
    env = {"VLLM_HOST_IP": member.address, "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS": str(_EXECUTE_TIMEOUT_S)}
    if name := interface(member.address):
        env |= {"GLOO_SOCKET_IFNAME": name, "NCCL_SOCKET_IFNAME": name}
    return {variable: value for variable, value in env.items() if variable not in plan_env}
