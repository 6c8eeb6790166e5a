"""Deaths for lack of memory in the pure cluster of builders.py, and what was learned from them."""

import json
from typing import Any

from builders import Fleet, Raw, accelerator_class, deployment, running

STATE = ("ConfigMap", "chat-state")


def gpu_fleet(**spec: Any) -> Fleet:
    """A settled fleet of one replica on a class of which nothing is predicted."""
    kind = accelerator_class("h100", device="Cuda", resourceName="nvidia.com/gpu", acceleratorsPerNode=8)
    fleet = Fleet(deployment(accelerators={"classes": ["h100"]}, **spec), {"h100": kind})
    fleet.settle()
    return fleet


def died(reason: str, flag: str = "", value: str = "") -> Raw:
    """The status of a pod whose worker died for this reason, and proposed this."""
    correction = {"correction": {"flag": flag, "value": value, "before": ""}} if flag else {}
    note = {"reason": reason, "message": "It died for lack of memory.", "remedy": "Mend it.", **correction}
    return running(1, {"exitCode": 1, "message": json.dumps(note)})


def die(fleet: Fleet, value: str, reason: str = "MemoryFractionTooHigh", flag: str = "gpu-memory-utilization") -> None:
    """Every pod of the fleet dies and proposes a lower value."""
    for pod in fleet.pods().values():
        pod["status"] = died(reason, flag, value)


def fractions(fleet: Fleet) -> set[str]:
    """The shares of memory that the pods' plans name."""
    found = set()
    for pod in fleet.pods().values():
        revision = pod["metadata"]["labels"]["modelfleet.dev/revision"]
        plan = json.loads(fleet.objects["ConfigMap", f"chat-{revision}"]["data"]["plan.json"])
        args = dict(arg.removeprefix("--").partition("=")[::2] for arg in plan["engine"]["args"])
        found.add(args.get("gpu-memory-utilization", ""))
    return found


def memory_state(fleet: Fleet) -> Any:
    """What NAME-state keeps of it."""
    return json.loads(fleet.objects[STATE]["data"]["memory.json"])
