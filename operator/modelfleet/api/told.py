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
        "No goodput signal is read in this version, so as many replicas run as the plan needs for the declared load,"
        " inside the bounds; `bound` names the one that clipped it.",
        "For another number change the load in spec.objectives, or set spec.scaling.mode to Manual and scale by hand.",
    )
    NO_SIGNAL = (
        "NoSignal",
        "No goodput signal is read in this version and nothing was predicted, so minReplicas holds.",
        "For another number raise spec.scaling.minReplicas, or set spec.scaling.mode to Manual and scale by hand.",
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
    REPLICAS_IGNORED = (
        "ReplicasIgnored",
        "Someone wrote spec.scaling.replicas, such as by `kubectl scale`, in a mode in which it does not count.",
        "Set spec.scaling.mode to Manual, or stop the scaler that the note names.",
    )
