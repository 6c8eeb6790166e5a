"""Times at which more replicas are kept than minReplicas: cron expressions in a time zone. Pure."""

from typing import Annotated, ClassVar
from zoneinfo import ZoneInfo, available_timezones

from modelfleet.api.cron import Cron
from modelfleet.api.schema import ApiModel, whole
from modelfleet.api.values import Clause, PositiveDuration, Value, matches


def _is_known(zone: str) -> bool:
    """Whether the zone exists; true where this machine has no database of zones and cannot tell."""
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        return not available_timezones()
    return True


_ZONE = r"[A-Za-z][A-Za-z0-9_+-]{0,31}(/[A-Za-z0-9_+-]{1,31}){0,2}"
_ZONE_FORM = "a time zone is a name of the IANA database, such as Europe/Berlin or UTC"


class TimeZone(Value):
    """The name of a time zone."""

    __slots__ = ()
    max_length = 64
    clauses: ClassVar[tuple[Clause, ...]] = (
        matches(_ZONE, _ZONE_FORM),
        Clause(
            f"!self.matches('^({_ZONE})$') || timestamp('2026-01-01T12:00:00Z').getFullYear(self) > 0",
            _is_known,
            _ZONE_FORM,
        ),
    )


class DurationUpToAWeek(PositiveDuration):
    """A duration of at most a week."""

    __slots__ = ()
    clauses = (
        *PositiveDuration.clauses,
        Clause(
            "!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) <= duration('168h')",
            lambda text: PositiveDuration(text).milliseconds <= 168 * 3_600_000,
            "the duration must be at most a week, 168h",
        ),
    )


class Schedule(ApiModel):
    """A time that comes again, in which at least minReplicas are kept. They are asked for a cold start ahead of it."""

    cron: Cron
    """When it begins, such as "0 8 * * 1-5"."""
    time_zone: TimeZone = TimeZone("UTC")
    """The time zone of `cron`, such as Europe/Berlin. Default: UTC."""
    duration: DurationUpToAWeek
    """How long it lasts, such as 10h, at most a week."""
    min_replicas: Annotated[int, whole(1, 1000)]
    """The fewest replicas meanwhile, up to maxReplicas."""
