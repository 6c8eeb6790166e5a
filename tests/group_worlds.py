"""A pure cluster whose replicas are groups of two pods on two nodes, and what can happen to one of them."""

from typing import Any

from builders import Fleet, Raw, accelerator_class, manual
from modelfleet.api import names
from modelfleet.core.effects import Create, Delete, Effect, Lift

MACHINES = ("n1", "n2", "n3")


def grouped(replicas: int = 1, **parts: Any) -> Fleet:
    """A fleet of tp1-pp2 on nodes with one accelerator each; a node takes one pod."""
    spec = {"parallelism": {"tensor": 1, "pipeline": 2}} | parts.pop("spec", {})
    given = {"classes": {"cpu": accelerator_class(acceleratorsPerNode=1)}, "machines": MACHINES, "room": 1} | parts
    return Fleet(manual(replicas, **spec), **given)


def serving(replicas: int = 1, **parts: Any) -> Fleet:
    """The same, at rest."""
    fleet = grouped(replicas, **parts)
    fleet.settle()
    return fleet


def ranks(fleet: Fleet) -> dict[str, str]:
    """The nodes of the pods by name; gated ones have none."""
    return {name: pod["spec"].get("nodeName", "") for name, pod in fleet.pods().items()}


def members(fleet: Fleet) -> list[Raw]:
    """The pods of the first replica, by rank."""
    return list(fleet.pods().values())[:2]


def wrote(effects: tuple[Effect, ...]) -> list[str]:
    """What is done to pods, in order: verb and rank."""
    told = []
    for effect in effects:
        if isinstance(effect, Create) and effect.manifest["kind"] == "Pod":
            told.append(f"create {effect.manifest['metadata']['labels'][names.RANK_LABEL]}")
        if isinstance(effect, Delete) and effect.kind == "Pod":
            told.append(f"delete {effect.name.rsplit('-', 1)[-1] if effect.name.count('-') == 3 else 0}")
        if isinstance(effect, Lift):
            told.append(f"lift {effect.name.rsplit('-', 1)[-1] if effect.name.count('-') == 3 else 0}")
    return told
