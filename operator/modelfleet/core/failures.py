"""Why a pod does not come up, from what the kubelet and the worker say about it. Pure.

The sentence is the same while a container waits in back-off and while it runs again and is not Ready yet: it comes from
the last termination in both cases, and holds no count and no time.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from modelfleet.api.names import FETCH_CONTAINER, WORKER_CONTAINER
from modelfleet.api.reasons import Reason
from modelfleet.core import raw

HOPELESS_RESTARTS = 3
"""A worker that died this often without being Ready now is taken for one that does not come up."""

_OOM = "OOMKilled"  # the kubelet's word for a container that the kernel killed whole
_FLAG_LIMIT, _VALUE_LIMIT = 64, 32
_SENTENCE_LIMIT = 600  # characters of somebody else's words in a message of ours

_IMAGE = {
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "RegistryUnavailable",
    "SignatureValidationFailed",
}
_IMAGE_REMEDY = "correct spec.engine.image (unset: the operator's worker image) or spec.imagePullSecrets"
_CONFIG = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "StartError"}
_WORKER = {
    Reason.MODEL_NOT_FOUND,
    Reason.MODEL_REFUSED,
    Reason.CREDENTIALS_REFUSED,
    Reason.FETCH_FAILED,
    Reason.WEIGHTS_CHANGED,
    Reason.ENGINE_ARGUMENTS_REFUSED,
    Reason.ENGINE_OUT_OF_MEMORY,
    Reason.FOREIGN_MEMORY,
    Reason.MEMORY_FRACTION_TOO_HIGH,
    Reason.LONG_PROMPT_SPIKE,
    Reason.HOST_OUT_OF_MEMORY,
    Reason.ACCELERATOR_FAULTY,
    Reason.ACCELERATOR_UNAVAILABLE,
    Reason.WRONG_ACCELERATOR,
    Reason.DISK_FULL,
    Reason.WEIGHTS_DAMAGED,
    Reason.KV_CACHE_TOO_SMALL,
    Reason.ENGINE_START_TIMEOUT,
    Reason.ENGINE_START_FAILED,
    Reason.ENGINE_DIED,
    Reason.ENGINE_HUNG,
    Reason.GROUP_MEMBER_LOST,
    Reason.PLAN_UNREADABLE,
}
_MAY_PASS = {
    Reason.FETCH_FAILED,
    Reason.ENGINE_DIED,
    Reason.ENGINE_HUNG,
    Reason.GROUP_MEMBER_LOST,
    Reason.FOREIGN_MEMORY,
    Reason.HOST_OUT_OF_MEMORY,
    Reason.LONG_PROMPT_SPIKE,
    Reason.WORKER_FAILED,
    Reason.REPLICA_LOST,
}


_OF_ITS_NODE = {
    Reason.ACCELERATOR_FAULTY,
    Reason.ACCELERATOR_UNAVAILABLE,
    Reason.WRONG_ACCELERATOR,
    Reason.FOREIGN_MEMORY,
    Reason.DISK_FULL,
}
"""What another node may not have: neither the revision nor a new start on the same node mends it."""

_REPEATED = re.compile(r"Rank ([0-9]{1,4}) on node ")
"""How the members of a group begin the failure of another one (modelfleet_worker.group)."""


@dataclass(frozen=True)
class Proposal:
    """An engine flag without dashes that a worker proposes to lower, and the value. Whether it is one that may be
    lowered, and by how much, is core/correction.py's to judge."""

    flag: str
    value: str


@dataclass(frozen=True)
class Failure:
    """Why a pod does not serve. `hopeless`: waiting alone is not going to help. `of_rank`: the rank of its group whose
    end it only repeats, None where it is its own. `anywhere`: all nodes have the same in this place."""

    reason: Reason
    message: str
    hopeless: bool
    proposal: Proposal | None = None
    of_rank: int | None = None
    anywhere: bool = False

    @property
    def of_its_node(self) -> bool:
        """The node is the cause, so that another may do."""
        return self.reason in _OF_ITS_NODE and not self.anywhere


def pod_failure(pod: Any) -> Failure | None:
    """The failure of a pod that is not Ready; None while nothing has gone wrong."""
    if raw.text(pod, "status", "phase") in ("Failed", "Succeeded"):
        return _ended(pod)
    fetches = bool(fetch_status(pod)) and not is_fetched(pod)
    container = fetch_status(pod) if fetches else worker_status(pod)
    failure = _waiting(pod, container) or _terminated(container)
    if failure is not None and failure.reason is Reason.DISK_FULL and fetches and _fetches_onto_a_claim(pod):
        return replace(failure, anywhere=True)
    return failure


def ended_failure(pod: Any) -> Failure | None:
    """What the worker of an ended pod said about why, None where it ended well or never ran."""
    container = worker_status(pod)
    code = raw.integer(container, "state", "terminated", "exitCode", default=-1)
    return _terminated(container) if code > 0 else None


def last_words(pod: Any) -> Any:
    """The JSON that an ended worker left in its termination message; None where there is none."""
    return _note(raw.text(worker_status(pod), "state", "terminated", "message"))


def worker_status(pod: Any) -> Mapping[str, Any]:
    """The status of the worker's container; empty before the kubelet reported one."""
    statuses = raw.items(pod, "status", "containerStatuses")
    return next((status for status in statuses if status.get("name") == WORKER_CONTAINER), {})


def fetch_status(pod: Any) -> Mapping[str, Any]:
    """The status of the container that fetches the weights; empty where there is none, or none was reported yet."""
    statuses = raw.items(pod, "status", "initContainerStatuses")
    return next((status for status in statuses if status.get("name") == FETCH_CONTAINER), {})


def is_fetched(pod: Any) -> bool:
    """That container ended well."""
    return raw.integer(fetch_status(pod), "state", "terminated", "exitCode", default=-1) == 0


def _fetches_onto_a_claim(pod: Any) -> bool:
    """The only claim that a pod of ours writes to is the one that keeps fetched weights."""
    claims = (raw.mapping(volume, "persistentVolumeClaim") for volume in raw.items(pod, "spec", "volumes"))
    return any(claim and claim.get("readOnly") is not True for claim in claims)


def _ended(pod: Any) -> Failure:
    reason = raw.text(pod, "status", "reason") or raw.text(pod, "status", "phase")
    said = _clipped(raw.text(pod, "status", "message"))
    message = f"it ended and is replaced: {reason}" + (f", {said}" if said else "")
    return Failure(Reason.REPLICA_LOST, message, hopeless=True)


def _waiting(pod: Any, container: Mapping[str, Any]) -> Failure | None:
    reason = raw.text(container, "state", "waiting", "reason")
    if reason in _IMAGE:
        spec = next((c for c in raw.items(pod, "spec", "containers") if c.get("name") == WORKER_CONTAINER), {})
        image = raw.text(spec, "image") or raw.text(container, "image")
        message = f"the image {image} cannot be pulled{_image_words(container)}; {_IMAGE_REMEDY}"
        return Failure(Reason.IMAGE_NOT_PULLABLE, message, hopeless=True)
    if reason in _CONFIG:
        said = _clipped(raw.text(container, "state", "waiting", "message"))
        message = "the worker's container cannot be made" + (f": {said}" if said else "") + "; mend what is missing"
        return Failure(Reason.CONTAINER_CONFIG_ERROR, message, hopeless=True)
    return None


def _image_words(container: Mapping[str, Any]) -> str:
    """The registry's answer, spelled alike by ErrImagePull and by the back-off that quotes it."""
    said = raw.text(container, "state", "waiting", "message")
    if said.startswith("Back-off"):
        said = said.partition("ErrImagePull: ")[2]
    return f": {_clipped(said)}" if said else ""


def _terminated(container: Mapping[str, Any]) -> Failure | None:
    ended = raw.mapping(container, "state", "terminated") or raw.mapping(container, "lastState", "terminated")
    if not ended:
        return None
    note = _note(raw.text(ended, "message"))
    if raw.at(note, "provisional") is True and raw.text(ended, "reason") != _OOM:
        note = None  # it was written before a kill for lack of memory that did not come
    reason = next((known for known in _WORKER if known == raw.text(note, "reason")), Reason.WORKER_FAILED)
    if reason is Reason.WORKER_FAILED and raw.text(ended, "reason") == _OOM:
        reason = Reason.HOST_OUT_OF_MEMORY
    often = raw.integer(container, "restartCount") >= HOPELESS_RESTARTS
    message = _told(note) or _untold(ended)
    hopeless = often or reason not in _MAY_PASS
    return Failure(reason, message, hopeless, _proposal(note), of_rank=_repeated_rank(note))


def _proposal(note: Any) -> Proposal | None:
    flag, value = (raw.text(note, "correction", key) for key in ("flag", "value"))
    return Proposal(flag[:_FLAG_LIMIT], value[:_VALUE_LIMIT]) if flag and value else None


def _repeated_rank(note: Any) -> int | None:
    found = _REPEATED.match(raw.text(note, "message"))
    return int(found[1]) if found else None


def _note(message: str) -> Any:
    """The worker's JSON in the termination message; None where it is something else."""
    try:
        return json.loads(message)
    except (ValueError, RecursionError):
        return None


def _told(note: Any) -> str:
    parts = (_clipped(raw.text(note, key)).rstrip(".") for key in ("message", "remedy"))
    return "; ".join(part for part in parts if part)


def _untold(ended: Mapping[str, Any]) -> str:
    if raw.text(ended, "reason") == _OOM:
        return "the worker was killed for lack of memory; raise the class's hostPerAccelerator.memory"
    code, signal = raw.integer(ended, "exitCode"), raw.integer(ended, "signal")
    how = f"by signal {signal or code - 128}" if signal or code > 128 else f"with exit code {code}"
    return f"the worker ended {how} and said nothing; see kubectl logs --previous"


def _clipped(text: str) -> str:
    """Somebody else's words on one line, cut to what fits a sentence of ours."""
    line = " ".join(text.split()).encode(errors="replace").decode()  # JSON can hold half a character
    return line if len(line) <= _SENTENCE_LIMIT else line[: _SENTENCE_LIMIT - 1] + "…"
