"""What the pods of a group require of each other where nobody pins them: nodes that are yet to be brought. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from modelfleet.api import names
from modelfleet.core.effects import Manifest
from modelfleet.core.placement.view import HOSTNAME_KEY

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_OWN = (names.DEPLOYMENT_LABEL, names.REVISION_LABEL, names.REPLICA_LABEL)


def together(pods: Sequence[Manifest], span: int, topology: Sequence[str]) -> list[Manifest]:
    """The rendered pods of one group by rank, each to get a node of its own near the others.

    Where tensor parallelism goes over `span` neighbouring ranks, these share a domain of the first of `topology`; else
    all ranks share one of the last. Not both: the scheduler only counts pods that match every term of a pod, so the
    first rank of a part would be bound anywhere.
    """
    return [_bound(pod, _ranks(rank, span), topology) for rank, pod in enumerate(pods)] if len(pods) > 1 else [*pods]


def _ranks(rank: int, span: int) -> tuple[int, ...]:
    """The ranks of the same tensor-parallel part; none where it is one pod's."""
    first = rank - rank % span
    return tuple(range(first, first + span)) if span > 1 else ()


def _bound(pod: Manifest, part: tuple[int, ...], topology: Sequence[str]) -> dict[str, Any]:
    labels = {key: pod["metadata"]["labels"][key] for key in _OWN}
    affinity = {"podAntiAffinity": {_REQUIRED: [_term(labels, HOSTNAME_KEY)]}}
    if topology:
        near = _term(labels, topology[0], part) if part else _term(labels, topology[-1])
        affinity["podAffinity"] = {_REQUIRED: [near]}
    return {**pod, "spec": {**pod["spec"], "affinity": affinity}}


def _term(labels: Mapping[str, str], key: str, ranks: tuple[int, ...] = ()) -> dict[str, Any]:
    selector: dict[str, Any] = {"matchLabels": dict(labels)}
    if ranks:
        values = [str(rank) for rank in ranks]
        selector["matchExpressions"] = [{"key": names.RANK_LABEL, "operator": "In", "values": values}]
    return {"labelSelector": selector, "topologyKey": key}
