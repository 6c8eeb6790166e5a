"""Why an engine died, where memory is to blame, from what was seen and said. Pure.

| what is seen | the reason |
| --- | --- |
| a device of the engine is lost or broken, or just had a critical XID | AcceleratorFaulty |
| the engine refused its share of the memory, and others hold what is missing | ForeignMemory |
| the same, and they do not | MemoryFractionTooHigh |
| killed by signal 9, a kill for lack of memory was just counted, others hold much of the container's | ForeignMemory |
| the same, they do not, and a long prompt with a mechanism was worked on | LongPromptSpike |
| the same, and nothing of that | HostOutOfMemory |
| killed by signal 9, and no such kill was counted then | the given one; the sentence says that somebody sent it |
| the allocator gave up, and others hold memory of the device | ForeignMemory |
| the same, they do not, and a long prompt with a mechanism was worked on | LongPromptSpike |
| the same, the driver showed that nobody else holds any, in the warm-up or while it served | MemoryFractionTooHigh |
| the same, while weights were loaded, or where nothing tells of others | EngineOutOfMemory |
| else | the given one |

A fault of a device is the cause only where no words tell one, and the kernel did not just kill for lack of memory.
An end that no words tell counts as a kill by signal 9 if one for lack of memory was just counted: what was killed may
have been a process whose exit code nobody got.
A long prompt is blamed only with its mechanism. A correction goes only with what the plan is to blame for.
"""

import re
from dataclasses import dataclass, replace
from typing import Any

from modelfleet_worker.devices import Device, Xid
from modelfleet_worker.engine_settings import EngineSettings
from modelfleet_worker.failure import Failure, Reason
from modelfleet_worker.memory_check import as_json, in_trouble, remedy_of, taken_by, too_high
from modelfleet_worker.memory_log import Mechanism, Said
from modelfleet_worker.memory_samples import (
    HOST_TOLERANCE_BYTES,
    Foreign,
    Sample,
    in_container,
    on_devices,
    on_node,
    size,
)
from modelfleet_worker.memory_steps import Correction, lower_budget, lower_memory, lower_tokens
from modelfleet_worker.recent_inputs import Input

_KILLED = -9
_LONG_SHARE = 0.5  # of the longest prompt that the engine takes: a prompt from here on is a long one
_LONG_TOKENS = 4096  # where the plan does not say the context
_KV_SHARE = 0.1
_NEAR = 5  # samples before a death that tell of it
_JUST_BEFORE_S = 60.0  # a fault or a kill from before that is none of this death's: an engine ends within seconds of it
_UNTOLD = (Reason.ENGINE_DIED, Reason.ENGINE_START_FAILED, Reason.ENGINE_START_TIMEOUT)  # no words tell the cause
_WARM_UP = re.compile(r"warming up|in capture_model|in capture_graph|lowering max_num_seqs or gpu_memory_utilization")
_BY_TOKENS = {Mechanism.PROMPT_LOGPROBS, Mechanism.CONTEXT_WORKSPACE}
_RAISE_HOST = "Raise the class's hostPerAccelerator.memory, or see what else runs in the container."


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All that is known of a death. `before` is from before the engine started, `ring` from while it ran, `after` from
    when all its processes were gone. `inputs` are the prompts that it took last."""

    settings: EngineSettings
    said: Said
    before: Sample | None = None
    ring: tuple[Sample, ...] = ()
    after: Sample | None = None
    inputs: tuple[Input, ...] = ()
    xids: tuple[Xid, ...] = ()

    @property
    def on_cpu(self) -> bool:
        """The engine uses no accelerator that a driver shows."""
        return self.before is None or not self.before.devices

    @property
    def oom_kills(self) -> int:
        """Processes of our container that were killed for lack of memory since before the engine started."""
        return _kills(self.before, self.after)

    @property
    def late_oom_kills(self) -> int:
        """Those of them that were counted just before the death."""
        seen = [sample for sample in (self.before, *self.ring) if sample is not None]
        earlier = [sample for sample in seen if sample.at_s <= self.ended_at_s - _JUST_BEFORE_S]
        return _kills(earlier[-1] if earlier else self.before, self.after)

    @property
    def ended_at_s(self) -> float:
        """When it was over, by the clock of the samples."""
        seen = (self.before, *self.ring, self.after)
        return max((sample.at_s for sample in seen if sample is not None), default=0.0)

    @property
    def devices(self) -> tuple[Device, ...]:
        """Those that the engine used, as they were first seen."""
        seen = (sample.devices for sample in (self.before, *self.ring, self.after) if sample is not None)
        return next((devices[: self.settings.devices] for devices in seen if devices), ())


def account(failure: Failure, facts: Facts) -> Failure:
    """The failure with what is known of memory; the same where memory has nothing to do with it."""
    causes = (_faulty, _refused_share, _killed, _gave_up)
    found = next((one for cause in causes if (one := cause(failure, facts)) is not None), None)
    if found is None:
        return failure
    return replace(
        failure,
        reason=found.reason,
        message=found.message,
        remedy=found.remedy,
        evidence={**_figures(facts), **found.evidence},
        correction=found.correction,
    )


def _faulty(failure: Failure, facts: Facts) -> Failure | None:
    """A fault of a device, where nothing better tells why the engine ended."""
    if failure.reason not in _UNTOLD or (_is_killed(failure, facts) and facts.late_oom_kills > 0):
        return None
    left = facts.after.devices[: facts.settings.devices] if facts.after is not None else ()
    xids = [xid for xid in facts.xids if facts.ended_at_s - xid.at_s <= _JUST_BEFORE_S and _is_used(xid.device, facts)]
    return next(filter(None, map(in_trouble, left)), None) or (_reported(xids[0]) if xids else None)


def _is_used(uuid: str, facts: Facts) -> bool:
    """Whether the engine used this device, or a slice of it; one that cannot tell who it is may be the one."""
    used = {own for device in facts.devices for own in (device.uuid, device.slice_of)}
    return not uuid or not used or uuid in used


def _reported(xid: Xid) -> Failure:
    which = f"accelerator {xid.device}" if xid.device else "an accelerator that tells nothing else any more"
    message = f"The driver reported XID {xid.number} of {which} just before the engine ended."
    remedy = "Look the number up in NVIDIA's list of XID errors; cordon the node, and reset or replace the accelerator."
    return Failure(
        reason=Reason.ACCELERATOR_FAULTY,
        message=message,
        remedy=remedy,
        evidence={"xid": xid.number, "device": xid.device},
    )


def _refused_share(failure: Failure, facts: Facts) -> Failure | None:
    said = facts.said
    if failure.phase != "starting" or not said.wanted_bytes:
        return None
    missing = said.wanted_bytes - said.free_bytes
    foreign = _foreign(facts)
    if foreign is None and facts.on_cpu and facts.after is not None:
        foreign = on_node(facts.after, missing)
    if foreign is not None and foreign.used_bytes >= missing:
        return taken_by(
            foreign, f"the engine is to take {size(said.wanted_bytes)} and {size(said.free_bytes)} are free"
        )
    return too_high(facts.settings, said.wanted_bytes, said.free_bytes, said.total_bytes)


def _killed(failure: Failure, facts: Facts) -> Failure | None:
    killed = _is_killed(failure, facts)
    if facts.late_oom_kills <= 0:
        return _by_somebody(failure, facts, killed) if killed or facts.said.silent else None
    if not killed and not facts.said.silent and failure.reason not in _UNTOLD:
        return None
    limit = f"at the container's limit of {size(_limit(facts))}" if _limit(facts) else "for lack of memory on the node"
    kill = f"the kernel killed a process of the engine {limit}"
    foreign = in_container(facts.ring[-_NEAR:], facts.after)
    if foreign is not None:
        return taken_by(foreign, kill)
    return _spike(facts, kill) or _host(facts, kill)


def _is_killed(failure: Failure, facts: Facts) -> bool:
    return _KILLED in (failure.exit_code, facts.said.worker_code)


def _by_somebody(failure: Failure, facts: Facts, killed: bool) -> Failure | None:
    """A process ended without a word, and the kernel counted no kill for lack of memory. Without a cgroup nobody
    counts."""
    if facts.after is None or facts.after.host is None or facts.said.out_of_memory:
        return None
    so = "so somebody sent it" if killed else "so somebody ended it, or it crashed"
    then = " just then" if facts.oom_kills > 0 else ""
    why = f"no kill for lack of memory was counted in the container{then}, {so}"
    return replace(failure, message=f"{failure.message.rstrip('.')}; {why}.", remedy=_WHO)


def _host(facts: Facts, kill: str) -> Failure:
    step = lower_memory(facts.settings) if facts.on_cpu and _kv_counts(facts) else None
    remedy = f"{remedy_of(step).rstrip('.')}, or raise the class's hostPerAccelerator.memory." if step else _RAISE_HOST
    own = max((sample.own_bytes for sample in facts.ring[-_NEAR:]), default=0)
    held = f"; its processes held {size(own)} when they were last looked at" if own else ""
    return Failure(
        reason=Reason.HOST_OUT_OF_MEMORY,
        message=f"{kill[0].upper()}{kill[1:]}{held}, and no other process there held much.",
        remedy=remedy,
        correction=as_json(step),
    )


def _kv_counts(facts: Facts) -> bool:
    """Whether a smaller KV cache would be felt: one of known size that is little of the limit would not."""
    kv = facts.settings.kv_bytes
    return kv is None or kv >= _KV_SHARE * _limit(facts)


def _gave_up(failure: Failure, facts: Facts) -> Failure | None:
    """The allocator's words, or the reason that was found in them."""
    said = facts.said
    if not said.out_of_memory or failure.reason not in (Reason.ENGINE_OUT_OF_MEMORY, Reason.ENGINE_DIED):
        return None
    asked = f"the engine asked for {size(said.tried_bytes)} more" if said.tried_bytes else "the engine asked for more"
    free = f" and {size(said.free_bytes)} were free" if said.total_bytes else ""
    foreign = _foreign(facts)
    if foreign is not None:
        return taken_by(foreign, f"{asked}{free}")
    if failure.phase == "starting":
        return _in_warm_up(facts, f"{asked}{free}")
    spike = _spike(facts, f"{asked}{free}")
    if spike is not None:
        return spike
    if facts.after is None or not facts.after.devices:
        message = f"{failure.message.rstrip('.')}; whether others hold memory could not be seen."
        return replace(failure, reason=Reason.ENGINE_OUT_OF_MEMORY, message=message)
    return _steady(facts, f"{asked}{free}")


def _in_warm_up(facts: Facts, numbers: str) -> Failure | None:
    """A device that is too small for the weights is not mended by a smaller share; one that fails after the KV cache
    was made is."""
    if not _WARM_UP.search(facts.said.out_of_memory) and facts.said.mechanism not in (
        Mechanism.SAMPLER,
        Mechanism.LATE_BUFFERS,
    ):
        return None
    return _steady(facts, f"{numbers} in its warm-up")


def _steady(facts: Facts, numbers: str) -> Failure:
    step = lower_memory(facts.settings)
    mechanism = f" for {facts.said.mechanism}" if facts.said.mechanism else ""
    share = f"the share {facts.settings.fraction:g}" if facts.settings.kv_bytes is None else "the KV cache's size"
    return Failure(
        reason=Reason.MEMORY_FRACTION_TOO_HIGH,
        message=f"{numbers[0].upper()}{numbers[1:]}{mechanism}; no other process uses the device, so {share} leaves too"
        " little beside it.",
        remedy=remedy_of(step),
        correction=as_json(step),
    )


def _spike(facts: Facts, numbers: str) -> Failure | None:
    """A long prompt, with the mechanism by which it needs more than was measured."""
    tokens, mechanism = _longest(facts), _mechanism(facts)
    if tokens is None or mechanism is None:
        return None
    step = _for_prompts(facts, mechanism)
    return Failure(
        reason=Reason.LONG_PROMPT_SPIKE,
        message=f"A prompt of {tokens} tokens needed memory for {mechanism}: {numbers}.",
        remedy=remedy_of(step, "Refuse prompts of that kind, or leave more memory free."),
        evidence={"promptTokens": tokens, "mechanism": mechanism.name},
        correction=as_json(step),
    )


def _for_prompts(facts: Facts, mechanism: Mechanism) -> Correction | None:
    settings, default = facts.settings, facts.said.budget_tokens
    if mechanism in _BY_TOKENS:
        return lower_tokens(settings, default) or lower_budget(settings, default)
    if mechanism is Mechanism.ENCODER:
        return lower_budget(settings, default)
    return lower_memory(settings)


def _longest(facts: Facts) -> int | None:
    """The longest prompt that was worked on at the death, if it is a long one."""
    open_ones = [one.tokens for one in facts.inputs if not one.ended]
    longest = max([*facts.said.prompts_tokens, *open_ones], default=0)
    context = facts.settings.context_tokens
    return longest if longest >= (_LONG_SHARE * context if context else _LONG_TOKENS) else None


def _mechanism(facts: Facts) -> Mechanism | None:
    """From the traceback; of a process that was killed, which has none, from what the open requests asked for."""
    if facts.said.mechanism is not None:
        return facts.said.mechanism
    open_ones = [one for one in facts.inputs if not one.ended]
    if any(one.logprobs for one in open_ones):
        return Mechanism.PROMPT_LOGPROBS
    if any(one.media for one in open_ones):
        return Mechanism.ENCODER
    return None if facts.settings.chunked else Mechanism.UNCHUNKED


def _foreign(facts: Facts) -> Foreign | None:
    """What others hold of the devices, else of the container; else what the allocator said of them."""
    after = facts.after
    if after is not None and after.devices:
        return on_devices(after.devices[: facts.settings.devices])
    if facts.on_cpu:
        return in_container(facts.ring[-_NEAR:], facts.after)
    others = facts.said.others_bytes
    return Foreign(used_bytes=others, where="the accelerator") if others > HOST_TOLERANCE_BYTES else None


def _kills(first: Sample | None, last: Sample | None) -> int:
    """Kills for lack of memory between two samples; 0 where nobody counted."""
    if first is None or last is None or first.host is None or last.host is None:
        return 0
    return last.host.oom_kills - first.host.oom_kills


def _limit(facts: Facts) -> int:
    host = facts.after.host if facts.after else None
    return host.limit_bytes or 0 if host else 0


def _figures(facts: Facts) -> dict[str, Any]:
    """What the operator and a reader may want to see of it, small."""
    found: dict[str, Any] = {}
    last = facts.ring[-1] if facts.ring else None
    if last is not None and last.host is not None:
        found |= {"hostUsedBytes": last.host.used_bytes, "hostOwnBytes": last.own_bytes}
    if _limit(facts):
        found["hostLimitBytes"] = _limit(facts)
    if facts.oom_kills > 0:
        found["oomKills"] = facts.oom_kills
    if last is not None and last.devices:
        found["deviceUsedBytes"] = [device.used_bytes for device in last.devices]
    if facts.after is not None and facts.after.devices:
        found["deviceUsedAfterBytes"] = [device.used_bytes for device in facts.after.devices]
    if facts.said.tried_bytes:
        found["triedBytes"] = facts.said.tried_bytes
    return found


_WHO = "Look at the node's log for who sent it; an engine that is killed for lack of memory is counted apart."
