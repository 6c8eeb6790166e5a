"""Which NetworkPolicies are made, put back and removed for replicas over several nodes."""

from types import MappingProxyType
from typing import Any

from modelfleet.core.children import Children
from modelfleet.core.effects import Apply, Create, Delete
from modelfleet.core.groups import Replica
from modelfleet.core.isolation import fenced, keep_policies
from modelfleet.core.pods import PodView, view
from modelfleet.core.render.metadata import Owner
from modelfleet.core.render.network_policy import network_policy

OWNER = Owner("chat", "prod", "uid-1")
NOTHING: Any = MappingProxyType({})


def children(**policies: Any) -> Children:
    foreign = {("NetworkPolicy", name): item for name, item in policies.items() if item is None}
    ours = {name: item for name, item in policies.items() if item is not None}
    kinds = dict.fromkeys(("pods", "services", "config_maps", "revisions", "budgets", "jobs", "job_pods"), NOTHING)
    return Children(owner=OWNER, policies=ours, foreign=foreign, **kinds)


def stored(slot: int) -> Any:
    manifest = network_policy(OWNER, "1a2b3c4d", slot)
    return {**manifest, "metadata": {**manifest["metadata"], "uid": f"policy-{slot}"}}


def member(rank: int) -> PodView:
    name = f"chat-1a2b3c4d-3{f'-{rank}' if rank else ''}"
    return view({"metadata": {"name": name, "uid": name}}, "chat")


def manifest_of(slot: int, rank: int, **spec: str) -> Create:
    labels = {"modelfleet.dev/revision": "1a2b3c4d", "modelfleet.dev/replica": str(slot)}
    return Create({"kind": "Pod", "metadata": {"name": f"chat-{slot}-{rank}", "labels": labels}, "spec": spec})


def test_groups_that_are_there_or_about_to_be_are_fenced_and_single_pods_are_not() -> None:
    group = Replica(revision="1a2b3c4d", slot=3, members=(member(0), None))
    single = Replica(revision="1a2b3c4d", slot=4, members=(member(0),))
    creates = [manifest_of(5, 0, subdomain="chat-1a2b3c4d"), manifest_of(5, 1, subdomain="chat-1a2b3c4d")]
    assert fenced([group, single], [*creates, manifest_of(6, 0)]) == {("1a2b3c4d", 3), ("1a2b3c4d", 5)}


def test_a_policy_is_made_under_the_leaders_name_and_one_without_a_group_is_deleted() -> None:
    effects = list(keep_policies(children(**{"chat-1a2b3c4d-1": stored(1)}), [("1a2b3c4d", 0)]))
    create, delete = effects
    assert isinstance(create, Create)
    assert create.manifest["metadata"]["name"] == "chat-1a2b3c4d-0"
    assert delete == Delete("networking.k8s.io/v1", "NetworkPolicy", "chat-1a2b3c4d-1", "policy-1")


def test_an_edited_policy_is_put_back_and_an_unchanged_one_left_alone() -> None:
    edited = stored(0)
    edited["spec"] = {**edited["spec"], "ingress": [{}]}
    (effect,) = keep_policies(children(**{"chat-1a2b3c4d-0": edited}), [("1a2b3c4d", 0)])
    assert isinstance(effect, Apply)
    assert list(keep_policies(children(**{"chat-1a2b3c4d-0": stored(0)}), [("1a2b3c4d", 0)])) == []


def test_somebody_elses_policy_of_that_name_is_not_touched() -> None:
    assert list(keep_policies(children(**{"chat-1a2b3c4d-0": None}), [("1a2b3c4d", 0)])) == []


def test_only_members_of_the_same_replica_reach_every_port() -> None:
    clients, members = network_policy(OWNER, "1a2b3c4d", 0)["spec"]["ingress"]
    assert [port["port"] for port in clients["ports"]] == [8000, 8001]
    assert "from" not in clients
    (peer,) = members["from"]
    assert peer["podSelector"]["matchLabels"]["modelfleet.dev/replica"] == "0"
    assert "ports" not in members
