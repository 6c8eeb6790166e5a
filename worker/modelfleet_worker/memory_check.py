"""Whether there is the memory that an engine is about to take, before it is started. Pure.

| what is seen | reason |
| --- | --- |
| the driver does not answer, or shows fewer devices than the engine uses | AcceleratorUnavailable |
| a device is lost, wants a reset, or could not replace broken memory rows | AcceleratorFaulty |
| a device has less than 90 % of the memory that its class states | WrongAccelerator |
| less is free than the plan takes, and others hold at least what is missing | ForeignMemory |
| less is free than the plan takes, and nothing else holds it | MemoryFractionTooHigh |
"""

from collections.abc import Sequence

from modelfleet_worker.devices import Device, Trouble
from modelfleet_worker.engine_settings import EngineSettings
from modelfleet_worker.failure import Failure, Reason
from modelfleet_worker.memory_samples import Foreign, Sample, device_words, in_container, on_devices, on_node, size
from modelfleet_worker.memory_steps import Correction, lower_memory

_SAME_KIND = 0.9  # of the stated memory: boards of one kind differ by what the driver and ECC keep
_END_IT = "End that process, or move it to another accelerator; the plan is not changed for it."
_TROUBLES = {
    Trouble.LOST: "has fallen off the bus",
    Trouble.RESET_REQUIRED: "wants a reset",
    Trouble.ROWS_FAILED: "has broken memory rows that could not be replaced",
    Trouble.ROWS_PENDING: "has broken memory rows that are replaced at its next reset",
}
_RESET = "Cordon the node, and reset or replace the accelerator."


def unavailable(words: str) -> Failure:
    """The driver gave an error instead of devices."""
    return Failure(
        reason=Reason.ACCELERATOR_UNAVAILABLE,
        message=f"The accelerators cannot be asked: {words.rstrip('. ')}.",
        remedy="Mend the node's driver or device plugin, or correct the class's resourceName and device.",
    )


def check_devices(devices: Sequence[Device], settings: EngineSettings, stated_bytes: int | None) -> Failure | None:
    """What speaks against a start on these devices. `stated_bytes` is the memory that their class states."""
    if len(devices) < settings.tensor:
        return unavailable(f"the container sees {len(devices)} and the engine uses {settings.tensor}")
    for device in devices[: settings.devices]:
        failure = in_trouble(device) or _wrong(device, stated_bytes) or _short(device, settings)
        if failure is not None:
            return failure
    return None


def in_trouble(device: Device) -> Failure | None:
    """What is wrong with a device that nothing should run on; None if nothing is."""
    if device.trouble is None:
        return None
    count = device.ecc_uncorrected
    errors = f", with {count} uncorrectable memory errors since the driver was loaded" if count else ""
    return Failure(
        reason=Reason.ACCELERATOR_FAULTY,
        message=f"The {device_words(device)} {_TROUBLES[device.trouble]}{errors}.",
        remedy=_RESET,
        evidence={"device": device.uuid, "eccUncorrected": count},
    )


def check_host(sample: Sample, settings: EngineSettings) -> Failure | None:
    """What speaks against a start on CPU. A fraction that the plan leaves open is the engine's to choose and check."""
    total, free = sample.host_total_bytes, sample.host_free_bytes
    if not settings.stated or not total:
        return None
    wanted = settings.kv_bytes if settings.kv_bytes is not None else int(settings.fraction * total)
    if wanted <= free:
        return None
    foreign = in_container((), sample)
    foreign = foreign if foreign and foreign.used_bytes >= wanted - free else on_node(sample, wanted - free)
    if foreign is not None:
        return taken_by(foreign, f"the engine is to take {size(wanted)} and {size(free)} are free")
    return too_high(settings, wanted, free, total)


def taken_by(foreign: Foreign, numbers: str, **more: object) -> Failure:
    """Others hold what is missing."""
    evidence = {"foreignBytes": foreign.used_bytes, **more}
    message = f"{foreign.words}; {numbers}."
    return Failure(reason=Reason.FOREIGN_MEMORY, message=message, remedy=_END_IT, evidence=evidence)


def too_high(settings: EngineSettings, wanted: int, free: int, total: int) -> Failure:
    """Nobody else holds what is missing."""
    if settings.kv_bytes is not None:
        what = f"A KV cache of {size(wanted)} is more than the {size(free)} that are free"
    else:
        what = f"The share {settings.fraction:g} of {size(total)} is more than the {size(free)} that are free"
    step = lower_memory(settings, wanted, free, total)
    return Failure(
        reason=Reason.MEMORY_FRACTION_TOO_HIGH,
        message=f"{what}.",
        remedy=remedy_of(step),
        evidence={"wantedBytes": wanted, "freeBytes": free, "totalBytes": total},
        correction=as_json(step),
    )


def remedy_of(step: Correction | None, otherwise: str = "Use accelerators with more memory, or more of them.") -> str:
    """What to do, where a setting is to blame."""
    return f"Set {step.words}." if step else otherwise


def as_json(step: Correction | None) -> dict[str, str]:
    """The proposal in the termination message; empty without one."""
    return {"flag": step.flag, "value": step.value, "before": step.before} if step else {}


def _wrong(device: Device, stated_bytes: int | None) -> Failure | None:
    if stated_bytes is None or device.usable_bytes >= _SAME_KIND * stated_bytes:
        return None
    message = (
        f"The {device_words(device)} has {size(device.usable_bytes)}, and its class states {size(stated_bytes)} for"
        " each accelerator."
    )
    remedy = "Correct the class's nodeSelector or memory, or the labels of the node."
    return Failure(reason=Reason.WRONG_ACCELERATOR, message=message, remedy=remedy, evidence={"device": device.uuid})


def _short(device: Device, settings: EngineSettings) -> Failure | None:
    """Less is free than the engine takes; what its own context needs comes on top and is the engine's to find out."""
    total, free = device.usable_bytes, device.free_bytes
    wanted = settings.kv_bytes if settings.kv_bytes is not None else int(settings.fraction * total)
    if wanted <= free:
        return None
    foreign = on_devices([device])
    if foreign is not None and free + foreign.used_bytes >= wanted:
        numbers = f"the engine is to take {size(wanted)} of {size(total)} and {size(free)} are free"
        return taken_by(foreign, numbers, device=device.uuid)
    return too_high(settings, wanted, free, total)
