"""The ConfigMap NAME-promise: what workers judge requests by, mounted into their pods. Pure."""

from typing import Any

from modelfleet.api import names
from modelfleet.core.render.metadata import Owner, metadata


def promise_map(owner: Owner, text: str) -> dict[str, Any]:
    """The ConfigMap with `text` as its promise.json. Not immutable: the kubelet brings a change to running pods."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(owner, names.promise(owner.name)),
        "data": {names.PROMISE_KEY: text},
    }
