"""What workers judge requests by: the objectives, in a ConfigMap of its own that may change under running pods. Pure.

It is no part of the pinned plan, so a changed promise reaches running workers and restarts none.
"""

import json
from collections.abc import Iterator
from hashlib import sha256
from math import ceil
from typing import Any

from modelfleet.api import names
from modelfleet.api.modeldeployment import (
    InputLengths,
    ModelDeployment,
    ModelDeploymentSpec,
    Objective,
    OutputLengths,
)
from modelfleet.api.sessions import Hold
from modelfleet.api.to_zero import FirstCaller
from modelfleet.core import raw
from modelfleet.core.children import Children
from modelfleet.core.drift import delete, labels_kept
from modelfleet.core.effects import Apply, Create, Effect
from modelfleet.core.render.promise import promise_map

TOLERANCE = 1.25
"""A window whose p50 or p95 length passes the declared one by more than this factor is outside the regime.

Workers count lengths at exactly these edges, so that a window can be judged without interpolation."""
_DIGEST_DIGITS = 12


def promise(deployment: ModelDeployment, callers: tuple[str, ...] = ()) -> dict[str, Any]:
    """What promise.json says. `digest` covers what a request is judged by, not the share or the load: a change of those
    leaves counts comparable. `callers` are SHA-256 sums of the activators' tokens: where a model goes to zero, workers
    believe what these say of a request."""
    spec = deployment.spec
    objectives = [_objective(one, spec) for one in spec.objectives]
    said: dict[str, Any] = {"digest": _digest(objectives), "objectives": objectives}
    if spec.sessions.hold:
        said["hold"] = _hold(spec.sessions.hold)
    if spec.scaling.to_zero is not None and callers:
        said["callers"] = sorted(callers)
    return said


def digest(deployment: ModelDeployment) -> str:
    """Names the promise whose counts are this deployment's."""
    return str(promise(deployment)["digest"])


def keep_promise(children: Children, deployment: ModelDeployment, callers: tuple[str, ...] = ()) -> Iterator[Effect]:
    """The effects that hand the promise to the workers. Other keys of the ConfigMap are nobody's business."""
    text = json.dumps(promise(deployment, callers), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    manifest = promise_map(children.owner, text)
    name = raw.name(manifest)
    stored = children.config_maps.get(name)
    if stored is None:
        if ("ConfigMap", name) not in children.foreign:
            yield Create(manifest)
        return
    if raw.at(stored, "metadata", "deletionTimestamp") is not None:
        return
    if raw.text(stored, "data", names.PROMISE_KEY) == text and labels_kept(stored, manifest):
        return
    if raw.at(stored, "immutable"):  # somebody froze it
        yield delete(stored, manifest)
        yield Create(manifest)
        return
    yield Apply(manifest, raw.uid(stored))


def _objective(one: Objective, spec: ModelDeploymentSpec) -> dict[str, Any]:
    lengths, terms = one.lengths, spec.scaling.to_zero
    longest = lengths.input_tokens.max or spec.model.max_context_tokens
    excused = terms.first_caller_waits.seconds if terms and one.first_caller is FirstCaller.EXCUSED else None
    return {
        "name": str(one.name),
        "ttft_s": one.ttft.seconds,
        "tpot_s": one.tpot.seconds,
        **({"inputMaxTokens": longest} if longest else {}),
        "inputEdges": _edges(lengths.input_tokens),
        "outputEdges": _edges(lengths.output_tokens),
        **({"firstCallerWaits_s": excused} if excused else {}),
    }


def _hold(hold: Hold) -> dict[str, Any]:
    """Sessions whose cached blocks workers hold for a short gap. No part of what a request is judged by."""
    return {
        "header": hold.when.header.canonical,
        "values": sorted(str(value) for value in hold.when.values),
        "maxGap_s": hold.max_gap.seconds,
        "maxShareOfCache": float(hold.max_share_of_cache.fraction),
    }


def _edges(lengths: InputLengths | OutputLengths) -> list[int]:
    declared = {lengths.p50, lengths.p95}
    return sorted(declared | {ceil(tokens * TOLERANCE) for tokens in declared})


def _digest(objectives: list[dict[str, Any]]) -> str:
    text = json.dumps(objectives, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return sha256(text.encode()).hexdigest()[:_DIGEST_DIGITS]
