"""A statement with its reason: what every decision of core comes to. Pure."""

from dataclasses import dataclass

from modelfleet.api.conditions import ConditionStatus
from modelfleet.api.reasons import Reason


@dataclass(frozen=True)
class Verdict:
    """Whether something holds, why, and one sentence with the numbers and what to do."""

    status: ConditionStatus
    reason: Reason
    message: str

    @property
    def holds(self) -> bool:
        """It is known to be so."""
        return self.status is ConditionStatus.TRUE


def yes(reason: Reason, message: str) -> Verdict:
    """It holds."""
    return Verdict(ConditionStatus.TRUE, reason, message)


def no(reason: Reason, message: str) -> Verdict:
    """It does not hold."""
    return Verdict(ConditionStatus.FALSE, reason, message)


def unknown(reason: Reason, message: str) -> Verdict:
    """It is not known whether it holds."""
    return Verdict(ConditionStatus.UNKNOWN, reason, message)
