"""The worker's plan: what to serve, with which engine, and how long to wait. Parsed from plan.json. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelfleet_worker.json_fields import Reader, parsed, seconds, whole

_MOST_RANKS = 4096


class PlanError(Exception):
    """plan.json cannot be used; the text names the field, what stands there and what would work."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Times in seconds: from the process's start to the first token; the longest wait for requests in flight while
    draining; how long arrivals are still served after SIGTERM, until no Service routes here any more.

    `drain_token_sha256`: the hexadecimal digest of the token that opens the drain's entrance; empty: it is shut."""

    start_deadline_s: float
    drain_s: float
    propagation_s: float
    drain_token_sha256: str = ""


@dataclass(frozen=True, kw_only=True)
class MemoryPlan:
    """What the class states of an accelerator: its device (Cuda or Cpu; empty in plans from before it was told), and
    its memory in bytes where that is stated."""

    device: str = ""
    accelerator_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Group:
    """A replica over several nodes: one worker on each, `data` data-parallel ranks in all, and the port on the leader
    at which the engine's processes find each other."""

    nodes: int
    data: int
    master_port: int


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """Where compiled code is kept: `key` names model, class and settings, `root` is the folder that pods share, whose
    bounds are `size_bytes` and `max_age_s` (0: no bound by age)."""

    key: str
    root: Path
    size_bytes: int
    max_age_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """`python` is the engine's interpreter; None means the image's. `args` are the engine's arguments
    besides those that the worker sets itself. `group` is None for an engine that is one pod's."""

    revision: str
    model_path: str
    served_names: tuple[str, ...]
    python: str | None
    args: tuple[str, ...]
    env: Mapping[str, str]
    limits: Limits
    memory: MemoryPlan = MemoryPlan()
    pickled: bool = False
    """Whether weights may be Python pickles."""
    engine_version: str = ""
    """The version of vLLM that `args` are for; empty: nobody said."""
    group: Group | None = None
    compiled: Compiled | None = None
    """Where code that the engine compiles is kept for later starts; None: nowhere."""


def parse_plan(text: str) -> Plan:
    """The plan in `text`; fields that are not known are ignored. Raises PlanError."""
    read = Reader(parsed(text, "plan.json", PlanError), "plan.json", PlanError)
    return Plan(
        revision=read.field("revision", _text, ""),
        model_path=read.field("model.path", _path),
        served_names=read.field("model.servedNames", _names),
        python=read.field("engine.python", _path, None),
        args=read.field("engine.args", _texts, ()),
        env=read.field("engine.env", _text_map, {}),
        engine_version=read.field("engine.version", _text, ""),
        pickled=read.field("weights.pickledWeights", _text, "") == "Allow",
        limits=Limits(
            start_deadline_s=read.field("limits.startDeadline_s", seconds),
            drain_s=read.field("limits.drain_s", seconds),
            propagation_s=read.field("limits.propagation_s", seconds),
            drain_token_sha256=read.field("limits.drainTokenSha256", _sha256, ""),
        ),
        memory=MemoryPlan(
            device=read.field("memory.device", _text, ""),
            accelerator_bytes=read.field("memory.accelerator_bytes", whole, None),
        ),
        group=_group(read),
        compiled=_compiled(read),
    )


def _group(read: Reader) -> Group | None:
    nodes = read.field("group.nodes", _ranks, 1)
    if nodes == 1:
        return None
    data = read.field("group.data", _ranks, 1)
    if data % nodes and nodes % data:
        raise PlanError(f"plan.json: group.data must divide group.nodes or be a multiple of it: {data} and {nodes}")
    return Group(nodes=nodes, data=data, master_port=read.field("group.masterPort", _port))


def _compiled(read: Reader) -> Compiled | None:
    key = read.field("compiled.key", _key, "")
    if not key:
        return None
    return Compiled(
        key=key,
        root=Path(read.field("compiled.root", _path)),
        size_bytes=read.field("compiled.sizeBytes", whole),
        max_age_s=read.field("compiled.maxAge_s", seconds, 0.0),
    )


def _key(value: Any) -> str:
    if not isinstance(value, str) or re.fullmatch("[0-9A-Za-z]{1,64}", value) is None:
        raise ValueError("1 to 64 letters and digits")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("a string")
    return value


def _path(value: Any) -> str:
    if not isinstance(value, str) or not value.startswith("/"):
        raise ValueError("an absolute path")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError("a list of strings")
    return tuple(value)


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(item, str) and item for item in value):
        raise ValueError("a list of at least one name")
    return tuple(value)


def _text_map(value: Any) -> Mapping[str, str]:
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise ValueError("an object of strings")
    if any(not name or "=" in name for name in value):
        raise ValueError("an object whose keys are names of variables")
    return dict(value)


def _ranks(value: Any) -> int:
    if whole(value) > _MOST_RANKS:
        raise ValueError(f"at most {_MOST_RANKS}")
    return whole(value)


def _sha256(value: Any) -> str:
    if not isinstance(value, str) or len(value) != 64 or set(value) - set("0123456789abcdef"):
        raise ValueError("a SHA-256 in hexadecimal")
    return value


def _port(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 65536:
        raise ValueError("a port from 1 to 65535")
    return value
