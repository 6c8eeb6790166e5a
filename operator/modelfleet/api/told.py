"""Reasons outside the conditions: of scaling decisions and of events that are not a condition's. Pure data.

docs/conditions.md is generated from here too. A reason is never renamed and never reused.
"""

from enum import StrEnum

_NOTHING = "Nothing to do."


class _Told(StrEnum):
    """A reason outside the conditions, with its documentation."""

    meaning: str
    remedy: str

    def __new__(cls, value: str, meaning: str, remedy: str) -> "_Told":
        """Builds a member from a row below."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.meaning, member.remedy = meaning, remedy
        return member


class ScalingReason(_Told):
    """Why the number of replicas is what it is; stands in status.scaling.lastDecision."""

    MANUAL = (
        "Manual",
        "spec.scaling.replicas decides, inside the bounds; `bound` names the one that clipped it.",
        _NOTHING,
    )
    SIZED_FOR_LOAD = (
        "SizedForLoad",
        "As many replicas run as the plan needs for the declared load, inside the bounds; `bound` names the one that"
        " clipped it. So it is in mode Advisory, and where this process samples no worker.",
        "For another number change the load in spec.objectives, or set spec.scaling.mode to Manual and scale by hand.",
    )
    NO_SIGNAL = (
        "NoSignal",
        "Nothing is predicted or measured of one replica, so a measured load does not say how many are needed, and"
        " minReplicas holds.",
        "State memory, memoryBandwidth and compute in the AcceleratorClass, so that the plan has a knee; or raise"
        " spec.scaling.minReplicas, or set spec.scaling.mode to Manual and scale by hand.",
    )
    STEADY = "Steady", "The load needs as many replicas as there were; the detail has the numbers.", _NOTHING
    LOAD_GREW = (
        "LoadGrew",
        "The load that is to be expected within a cold start needs more replicas; the detail has the numbers.",
        _NOTHING,
    )
    BACKLOG_GREW = "BacklogGrew", "Requests wait, and working them off needs more replicas.", _NOTHING
    LOAD_FELL = (
        "LoadFell",
        "Fewer replicas keep the promise with a margin, and have for as long as a new one would take to come.",
        _NOTHING,
    )
    OUT_OF_BOUNDS = (
        "OutOfBounds",
        "A bound moved the number: minReplicas, maxReplicas, maxAccelerators, a schedule, a quota or another model;"
        " `bound` names it.",
        "Change that bound if the number is not what is wanted.",
    )
    NO_DATA = (
        "NoData",
        "No serving worker has told anything for a while, so the number is held.",
        "Look at the workers' port 8001 and what is between it and the operator (NetworkPolicies), or at the Prometheus"
        " that the operator is told to read. Until then `kubectl scale` works in mode Manual.",
    )
    SAFE_STATE = (
        "SafeState",
        "No serving worker has told anything for so long that the declared load is taken to be there: the number is"
        " what the plan needs for it, or what it was where that is more.",
        "As for NoData.",
    )

    IDLE = (
        "Idle",
        "No request came for spec.scaling.toZero.after, so no replica runs; the activator holds and tells of the next.",
        _NOTHING,
    )
    WOKEN = (
        "Woken",
        "Requests came while no replica ran, so as many start as answer what waited; the detail has the numbers.",
        _NOTHING,
    )


class EventReason(_Told):
    """An event that is not a condition's reason."""

    MEMORY_CORRECTED = (
        "MemoryCorrected",
        "A worker died for lack of memory that the plan is to blame for, so one setting was lowered by a bounded step;"
        " the note says which, and it is rolled out as a new revision.",
        "Nothing to do. To choose yourself write the flag in spec.engine.args; docs/memory.md has the rules.",
    )

    SCALED = "Scaled", "The wanted number of replicas changed; the note says from what to what, and why.", _NOTHING
    NEXT_CLASS_USED = (
        "NextClassUsed",
        "A listed class had no room for a replica, so it is made on a later one of spec.accelerators.classes; the note"
        " says which, and what was missing.",
        "Nothing to do. To have it on the class before make room there; a rollout goes back to it (docs/placement.md).",
    )
    NO_DATA = (
        "NoData",
        "Nothing is heard of the load of a model any more, so its number of replicas is held.",
        "As for the scaling reason NoData.",
    )
    LATE_WITHOUT_LOAD = (
        "LateWithoutLoad",
        "Requests are late though replicas are not busy, so no further replica is bought for it.",
        "Look for what is slow: a new revision, longer requests (status.goodput), nodes, the network in front.",
    )
    YIELDED = (
        "Yielded",
        "Accelerators do not suffice for all, so this model leaves replicas above its minimum to another; the note says"
        " to whom, and why.",
        "Add nodes, raise spec.scaling.minReplicas, or change the priority of one of the two (docs/scaling.md).",
    )
    GRANTED = "Granted", "Another model leaves replicas to this one; the note says which, and why.", _NOTHING
    ADVISED = (
        "Advised",
        "Mode is Advisory, and mode Active would run another number of replicas; the note says which, and why.",
        "Set spec.scaling.mode to Active to have it done.",
    )
    DATA_BACK = "DataBack", "The load of a model is measured again, so its number of replicas follows it.", _NOTHING
    REPLICAS_IGNORED = (
        "ReplicasIgnored",
        "Someone wrote spec.scaling.replicas, such as by `kubectl scale`, in a mode in which it does not count.",
        "Set spec.scaling.mode to Manual, or stop the scaler that the note names.",
    )
