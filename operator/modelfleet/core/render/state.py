"""The ConfigMap NAME-state: inputs to decisions that no other object holds. Pure.

Not a report: what stands here is read again. Its keys are texts of JSON, each owned by one module of core.
"""

from collections.abc import Mapping
from typing import Any

from modelfleet.api import names
from modelfleet.core.render.metadata import Owner, metadata


def state(owner: Owner, data: Mapping[str, str]) -> dict[str, Any]:
    """The ConfigMap with all of `data`; a key that is left out goes."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(owner, names.state(owner.name)),
        "data": dict(sorted(data.items())),
    }
