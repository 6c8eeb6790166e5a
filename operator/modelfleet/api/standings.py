"""Where a reason may stand: a condition with a status. Pure data; reasons.py has the reasons."""

from enum import StrEnum

from modelfleet.api.conditions import ConditionStatus, ConditionType

Standing = tuple[ConditionType, ConditionStatus]


def _is(condition: ConditionType, status: ConditionStatus) -> Standing:
    return condition, status


ACCEPTED, NOT_ACCEPTED = (
    _is(ConditionType.ACCEPTED, status) for status in (ConditionStatus.TRUE, ConditionStatus.FALSE)
)
PLANNED, NOT_PLANNED = (_is(ConditionType.PLANNED, status) for status in (ConditionStatus.TRUE, ConditionStatus.FALSE))
PLAN_UNKNOWN = _is(ConditionType.PLANNED, ConditionStatus.UNKNOWN)
PLACED, NOT_PLACED = (_is(ConditionType.PLACED, status) for status in (ConditionStatus.TRUE, ConditionStatus.FALSE))
AVAILABLE, NOT_AVAILABLE = (
    _is(ConditionType.AVAILABLE, status) for status in (ConditionStatus.TRUE, ConditionStatus.FALSE)
)
PROGRESSING, NOT_PROGRESSING = (
    _is(ConditionType.PROGRESSING, status) for status in (ConditionStatus.TRUE, ConditionStatus.FALSE)
)
READY = _is(ConditionType.READY, ConditionStatus.TRUE)
NOT_READY = _is(ConditionType.READY, ConditionStatus.FALSE)
PROMISE_KEPT, PROMISE_NOT_KEPT, PROMISE_UNKNOWN = (
    _is(ConditionType.OBJECTIVES_MET, status)
    for status in (ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN)
)
UNKNOWN = tuple(_is(condition, ConditionStatus.UNKNOWN) for condition in ConditionType)
PROGRESS_UNKNOWN = _is(ConditionType.PROGRESSING, ConditionStatus.UNKNOWN)
DEPENDENT_UNKNOWN = tuple(
    _is(condition, ConditionStatus.UNKNOWN)
    for condition in (
        ConditionType.PLANNED,
        ConditionType.PLACED,
        ConditionType.AVAILABLE,
        ConditionType.PROGRESSING,
        ConditionType.READY,
    )
)
STUCK = (NOT_AVAILABLE, NOT_PROGRESSING)


class Documented(StrEnum):
    """A reason's value is what stands in the cluster; `standings`, `meaning` and `remedy` are its documentation."""

    standings: tuple[Standing, ...]
    meaning: str
    remedy: str

    def __new__(cls, value: str, standings: tuple[Standing, ...], meaning: str, remedy: str) -> "Documented":
        """Builds a member from a row of reasons.py."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.standings, member.meaning, member.remedy = standings, meaning, remedy
        return member
