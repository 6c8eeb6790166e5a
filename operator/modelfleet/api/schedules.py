"""Times at which more replicas are kept than minReplicas: cron expressions in a time zone. Pure.

The form of a cron expression is one pattern, so that the API server and we refuse the same ones; what it means is in
core/scaling/schedule.py. A library would make the base install, which the command line shares, need more than pydantic.
"""

from typing import Annotated, ClassVar
from zoneinfo import ZoneInfo, available_timezones

from modelfleet.api.schema import ApiModel, whole
from modelfleet.api.values import Clause, PositiveDuration, Value, matches

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


def _field(number: str, words: tuple[str, ...] = ()) -> str:
    """One field: `*`, values, ranges, steps and lists of them."""
    one = f"({'|'.join((number, *words))})"
    part = rf"(\*|{one}(-{one})?)(/[1-9][0-9]?)?"
    return f"{part}(,{part})*"


_CRON = " ".join(
    (
        _field("[0-5]?[0-9]"),
        _field("[01]?[0-9]|2[0-3]"),
        _field("0?[1-9]|[12][0-9]|3[01]"),
        _field("0?[1-9]|1[0-2]", MONTHS),
        _field("[0-7]", DAYS),
    )
)


class Cron(Value):
    """A cron expression of five fields, as in a CronJob."""

    __slots__ = ()
    max_length = 100
    clauses: ClassVar[tuple[Clause, ...]] = (
        matches(
            _CRON,
            "a cron expression is five fields apart by one space: minute, hour, day of month, month, day of week, such"
            ' as "0 8 * * 1-5"; names are lower-case, such as mon-fri',
        ),
    )


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
