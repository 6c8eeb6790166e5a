"""By which resource names a ModelDeployment may ask nodes for accelerators. Pure; no shape of an object raises."""

from collections.abc import Iterator
from typing import Any

from modelfleet.api import names
from modelfleet.core import raw
from modelfleet.core.kept import entry
from modelfleet.core.placement.project import accelerators_of, pod_amounts
from modelfleet.core.snapshot import World


def resources_of(world: World) -> frozenset[str]:
    """Those of all classes, of plans that are pinned (a class may have changed since), and of pods that are there (an
    admission webhook may have added some)."""
    state = next((item for item in world.config_maps if raw.name(item) == names.state(raw.name(world.deployment))), {})
    plans = (raw.at(item, "data", "plan") for item in world.revisions)
    found = {
        *(name for kind in world.classes.values() for name in _of_class(kind)),
        *(name for plan in (*plans, entry(state, names.ADOPTION_KEY)) for name in _of_plan(plan)),
        *(name for pod in world.pods for name, _ in accelerators_of(pod_amounts(pod))),
    }
    return frozenset(found - {""})


def _of_class(kind: Any) -> Iterator[str]:
    yield raw.text(kind, "spec", "resourceName")
    if device_class := raw.text(kind, "spec", "deviceClassName"):
        yield names.device_class_resource(device_class)


def _of_plan(plan: Any) -> Iterator[str]:
    yield raw.text(plan, "resourceName")
    yield from (raw.text(other, "resourceName") for other in raw.items(plan, "others"))
