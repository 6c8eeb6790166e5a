"""Why a worker ended, as it stands in the termination message that the kubelet keeps. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

FULL = frozenset({28, 122})
"""ENOSPC and EDQUOT: how the system says that a volume is full."""
_MOST_BYTES = 6  # that one character takes in JSON, so that a cut is never too long
LIMIT_BYTES = 4096  # the kubelet cuts a termination message there, and cut JSON cannot be read


class Reason(StrEnum):
    """Reasons of modelfleet.api.reasons that a worker gives; the operator mirrors them as condition reasons."""

    PLAN_UNREADABLE = "PlanUnreadable"
    MODEL_NOT_FOUND = "ModelNotFound"
    MODEL_REFUSED = "ModelRefused"
    CREDENTIALS_REFUSED = "CredentialsRefused"
    FETCH_FAILED = "FetchFailed"
    WEIGHTS_CHANGED = "WeightsChanged"
    ENGINE_ARGUMENTS_REFUSED = "EngineArgumentsRefused"
    ENGINE_OUT_OF_MEMORY = "EngineOutOfMemory"
    FOREIGN_MEMORY = "ForeignMemory"
    MEMORY_FRACTION_TOO_HIGH = "MemoryFractionTooHigh"
    LONG_PROMPT_SPIKE = "LongPromptSpike"
    HOST_OUT_OF_MEMORY = "HostOutOfMemory"
    ACCELERATOR_FAULTY = "AcceleratorFaulty"
    ACCELERATOR_UNAVAILABLE = "AcceleratorUnavailable"
    WRONG_ACCELERATOR = "WrongAccelerator"
    DISK_FULL = "DiskFull"
    WEIGHTS_DAMAGED = "WeightsDamaged"
    ENGINE_HUNG = "EngineHung"
    KV_CACHE_TOO_SMALL = "KvCacheTooSmall"
    ENGINE_START_TIMEOUT = "EngineStartTimeout"
    ENGINE_START_FAILED = "EngineStartFailed"
    ENGINE_DIED = "EngineDied"
    GROUP_MEMBER_LOST = "GroupMemberLost"


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One reason with one sentence of what happened and one of what to do.

    `exit_code` is the engine's: negative for a signal, None if no engine was started or it had not ended. `phase` is
    the worker's state at that time: starting, serving or draining. `log` is the engine's last lines. `evidence` are
    the figures that the reason rests on, and `correction` a setting of the plan that should be lowered for it.
    """

    reason: Reason
    message: str
    remedy: str
    exit_code: int | None = None
    phase: str = "starting"
    log: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    correction: Mapping[str, str] = field(default_factory=dict)
    provisional: bool = False
    """Written before a death that may come, and meant only if the kernel then killed the whole container."""

    def to_json(self) -> str:
        """JSON of at most LIMIT_BYTES bytes: what is too much goes from the beginning of the log, then from the end of
        the message, then of the remedy, then the evidence goes. What is no text, as in a file's name, is a question
        mark."""
        left, evidence = {"log": self.log, "message": self.message, "remedy": self.remedy}, dict(self.evidence)
        while len(text := self._json(left, evidence).encode(errors="replace")) > LIMIT_BYTES:
            cut = max(1, (len(text) - LIMIT_BYTES) // _MOST_BYTES)
            longest = next((key for key in left if left[key]), "")
            if not longest:
                evidence = {}
            elif longest == "log":
                left["log"] = left["log"][cut:]
            else:
                left[longest] = left[longest][:-cut]
        return text.decode()

    def _json(self, left: Mapping[str, str], evidence: Mapping[str, Any]) -> str:
        told = {"evidence": evidence, "correction": dict(self.correction)}
        value = {
            "reason": self.reason,
            "message": left["message"],
            "remedy": left["remedy"],
            "exitCode": self.exit_code,
            "phase": self.phase,
            **{key: part for key, part in told.items() if part},
            **({"provisional": True} if self.provisional else {}),
            "log": left["log"],
        }
        return json.dumps(value, ensure_ascii=False)
