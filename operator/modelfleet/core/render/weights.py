"""What a pod needs for weights that are no folder of a claim: volumes, mounts, and the container that fetches. Pure.

The fetch is an init container, so a worker that is started again waits for no server. Only it gets the user's Secret.
A host path is mounted where the AcceleratorClass grants a cache (its own namespace's subfolder, so that namespaces
share nothing), or where the administrator allows a prefix (read-only; through subPath, so no link leads out of it).
"""

from typing import Any

from modelfleet.api import names
from modelfleet.core.plan import Place, Plan, Weights
from modelfleet.core.render.security import CONTAINER_SECURITY

_VOLUME = "weights"
_USED_BY = "use"  # the store's folder with the marks of pods
_COMPILED = "compiled"  # a store of its own inside it
_COMPILED_SHARE = 10  # compiled code takes at most this part of a node cache's size, besides the weights
_COMPILED_ON_CLAIM_BYTES = 10 * 10**9
_RESOURCES = {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}}


def add_weights(spec: dict[str, Any], namespace: str, plan: Plan) -> None:
    """Adds to a worker pod's spec what its weights need; nothing for a folder of a claim."""
    of = plan.weights
    if of is None:
        return
    worker = spec["containers"][0]
    spec["volumes"].append(weights_volume(of))
    if not of.is_fetched:
        worker["volumeMounts"].append(node_folder(of))
        return
    spec["initContainers"] = [_fetch(namespace, plan, of)]
    worker["volumeMounts"].append(_store(namespace, of) | {"readOnly": True})
    if of.is_shared:
        folder = names.WEIGHTS_FOLDER if of.place is Place.CLAIM else namespace
        used = {"name": _VOLUME, "mountPath": names.USE_MOUNT, "subPath": f"{folder}/{_USED_BY}"}
        worker["volumeMounts"].append(used)
        if plan.compiled:
            kept = {"name": _VOLUME, "mountPath": names.COMPILED_MOUNT, "subPath": f"{folder}/{_COMPILED}"}
            worker["volumeMounts"].append(kept)


def weights_volume(of: Weights) -> dict[str, Any]:
    """The volume with the weights, or for them."""
    if of.place is Place.CLAIM:
        source: dict[str, Any] = {"persistentVolumeClaim": {"claimName": of.claim}}
    elif of.place is Place.NODE:
        source = {"hostPath": {"path": of.node_path, "type": "DirectoryOrCreate"}}
    elif of.place is Place.FOLDER:
        source = {"hostPath": {"path": of.node_path, "type": "Directory"}}
    else:
        source = {"emptyDir": {}}
    return {"name": _VOLUME, **source}


def node_folder(of: Weights) -> dict[str, Any]:
    """The mount of a folder of the node. The kubelet follows no link out of the volume on the way to a subPath."""
    below = {"subPath": of.path} if of.path else {}
    return {"name": _VOLUME, "mountPath": names.NODE_MOUNT, **below, "readOnly": True}


def secret_source(secret: str) -> dict[str, Any]:
    """The user's Secret as variables of a container. A Secret that is missing is named in the container's status; one
    that is mounted would only be named in an event."""
    return {"envFrom": [{"prefix": names.CREDENTIAL_PREFIX, "secretRef": {"name": secret}}]} if secret else {}


def weights_order(plan: Plan) -> dict[str, Any]:
    """The part `weights` of plan.json; empty where there is nothing to say."""
    of = plan.weights
    allowed = {"pickledWeights": "Allow"} if plan.pickled else {}
    if of is None or not of.is_fetched:
        return allowed
    order: dict[str, Any] = {
        "source": of.source,
        "revision": of.revision,
        "key": plan.store_key,
        "root": plan.store,
        "shared": of.is_shared,
        "endpoint": of.endpoint,
        "sizeBytes": of.size_bytes,
        "maxAge_s": of.max_age_s,
        "remoteCode": "Allow" if of.code else "",
    }
    return {key: value for key, value in order.items() if value} | allowed


def compiled_order(plan: Plan) -> dict[str, Any]:
    """The part `compiled` of plan.json; empty where nothing is kept."""
    of = plan.weights
    if not plan.compiled or of is None:
        return {}
    size = of.size_bytes // _COMPILED_SHARE if of.size_bytes else _COMPILED_ON_CLAIM_BYTES
    bounds = {"sizeBytes": max(1, size), "maxAge_s": of.max_age_s}
    return {"key": plan.compiled_key, "root": names.COMPILED_MOUNT, **bounds}


def _store(namespace: str, of: Weights) -> dict[str, Any]:
    below = {"subPath": namespace} if of.place is Place.NODE else {}
    return {"name": _VOLUME, "mountPath": names.WEIGHTS_MOUNT, **below}


def _fetch(namespace: str, plan: Plan, of: Weights) -> dict[str, Any]:
    return {
        "name": names.FETCH_CONTAINER,
        "image": plan.image,
        "imagePullPolicy": plan.image_pull_policy,
        "command": ["modelfleet-worker", "fetch", "--plan", f"{names.PLAN_MOUNT}/{names.PLAN_KEY}"],
        **secret_source(of.secret),
        "resources": {key: dict(part) for key, part in _RESOURCES.items()},
        "securityContext": dict(CONTAINER_SECURITY),
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "volumeMounts": [
            {"name": "plan", "mountPath": names.PLAN_MOUNT, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "run", "mountPath": "/run/modelfleet"},
            _store(namespace, of),
        ],
    }
