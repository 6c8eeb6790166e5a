"""Small clusters for tests of placement."""

from collections.abc import Mapping
from typing import Any

from modelfleet.core.placement.view import ClusterView, NodeView
from modelfleet.core.placement.want import GroupWant

GPU = "nvidia.com/gpu"
BLOCK, RACK, CLIQUE = "topology.example.com/block", "topology.example.com/rack", "nvidia.com/gpu.clique"


def node(name: str, free: int = 8, of: int = 8, labels: Mapping[str, str] | None = None, **more: Any) -> NodeView:
    """A node with `free` of its `of` accelerators free, 96 cores and 1 TiB."""
    host = {"cpu": 96_000, "memory": 2**40, "pods": 110}
    held = {GPU: (of - free,)} if free < of else {}
    return NodeView(
        **{
            "name": name,
            "labels": {"gpu": "h100", **(labels or {})},
            "allocatable": {GPU: of, **host},
            "free": {GPU: free, **host},
            "held": held,
            **more,
        }
    )


def cluster(*nodes: NodeView) -> ClusterView:
    return ClusterView(nodes=tuple(sorted(nodes, key=lambda each: each.name)))


def want(accelerators: int = 8, members: int = 1, **more: Any) -> GroupWant:
    """A group of pods with so many accelerators each."""
    requests = {GPU: accelerators, "cpu": 1000 * accelerators, "pods": 1}
    return GroupWant(
        **{
            "key": "chat-0",
            "members": members,
            "resource": GPU,
            "accelerators": accelerators,
            "requests": requests,
            "class_name": "h100-sxm",
            "node_selector": {"gpu": "h100"},
            "tensor": accelerators,
            **more,
        }
    )
