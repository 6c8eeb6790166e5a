"""Replicas and scenes of a rollout, for tests of a single step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any

from builders import START
from modelfleet.core.drain import Terms
from modelfleet.core.groups import Replica, alone
from modelfleet.core.pods import PodView
from modelfleet.core.rollout import Outlook, Scene, decide_step

NEW, OLD = "bbbbbbbb", "aaaaaaaa"
OFF: dict[str, Any] = {"serving": False}
STARTING: dict[str, Any] = {"ready": False}


def pod(slot: int, revision: str = NEW, **change: Any) -> PodView:
    """A pod that serves; `change` replaces fields."""
    name = f"chat-{revision}-{slot}"
    ready = PodView(
        name=name,
        uid=name,
        revision=revision,
        slot=slot,
        ready=True,
        serving=True,
        terminating=False,
        finished=False,
        placed=True,
        created_at=START - timedelta(hours=1),
        requests={"gpu": 1.0},
    )
    return replace(ready, **change)


def old(slot: int, **change: Any) -> PodView:
    """One of the older revision."""
    return pod(slot, OLD, **change)


@dataclass(frozen=True)
class Full:
    """A class where a new replica is short of these amounts; empty where no node is fit for one. Replicas leave what
    they hold, but for nodes that are barred; what was asked to end among `pods` has left."""

    pods: tuple[PodView, ...]
    short: Mapping[str, float]
    barred: frozenset[str] = frozenset()
    pool: str = NEW
    buys: bool = False

    def has_room(self, leaving: Sequence[Replica], count: int = 1) -> bool:
        """As if every amount that is left were in one place."""
        ended = [pod for pod in self.pods if pod.terminating]
        left = [pod for pod in (*ended, *(pod for each in leaving for pod in each.pods)) if pod.placed]
        free = {name: sum(p.requests.get(name, 0.0) for p in left if p.node not in self.barred) for name in self.short}
        return bool(free) and all(free[name] >= count * amount for name, amount in self.short.items())


def scene(*pods: PodView, replicas: int = 2, **change: Any) -> Scene:
    """The scene of these pods, each a replica; `change` replaces fields, also of the outlook. `short` and `barred` are
    of a class that is full, as it is where the scheduler finds no node."""
    seen = {each.name: change.pop(each.name) for each in fields(Outlook) if each.name in change}
    stuck = next((each for each in pods if each.unschedulable and each.revision == NEW), None)
    short = change.pop("short", stuck.requests if stuck else None)
    if short is not None:
        seen["classes"] = (Full(pods, short, change.pop("barred", frozenset())),)
    base = Scene(
        revision=NEW,
        replicas=replicas,
        fleet=tuple(map(alone, pods)),
        held_slots=frozenset(p.slot for p in pods if p.revision == NEW and p.slot is not None),
        drains=Terms(propagation_s=5.0),
        now=START,
        outlook=Outlook(**seen),
    )
    return replace(base, **change)


def told(of: Scene) -> dict[str, Any]:
    """The step in short: what is not empty, replicas as revision letter and slot."""
    step = decide_step(of)

    def short(replicas: Any) -> str:
        return " ".join(sorted(f"{(each.revision or '?')[0]}{each.slot}" for each in replicas))

    parts = {"create": step.create, "delete": short(step.delete), "off": short(step.off), "on": short(step.on)}
    return {name: part for name, part in parts.items() if part}
