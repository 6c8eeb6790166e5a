"""Why a worker ended, as it stands in the termination message that the kubelet keeps. Pure."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

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
        """JSON of at most LIMIT_BYTES bytes: cut at the beginning of the log first, then at the end of the message."""
        log, message = self.log, self.message
        while len(text := self._json(message, log).encode()) > LIMIT_BYTES:
            surplus = len(text) - LIMIT_BYTES
            if log:  # a character is at least one byte, so this never cuts too much
                log = log[max(1, surplus // 4) :]
            else:
                message = message[: -max(1, surplus // 4)]
        return text.decode()

    def _json(self, message: str, log: str) -> str:
        told = {"evidence": dict(self.evidence), "correction": dict(self.correction)}
        value = {
            "reason": self.reason,
            "message": message,
            "remedy": self.remedy,
            "exitCode": self.exit_code,
            "phase": self.phase,
            **{key: part for key, part in told.items() if part},
            **({"provisional": True} if self.provisional else {}),
            "log": log,
        }
        return json.dumps(value, ensure_ascii=False)
