"""spec.scaling: modes and schedules that may be written, and what is said about the rest."""

from typing import Any

from api_objects import Bad, Good

_SCHEDULE = {"cron": "0 8 * * 1-5", "timeZone": "Europe/Berlin", "duration": "10h", "minReplicas": 2}
_CRON = (
    "a cron expression is five fields apart by one space: minute, hour, day of month, month, day of week, such as"
    ' "0 8 * * 1-5"; names are lower-case, such as mon-fri'
)
_NEVER = (
    "the cron expression never comes: none of its months has such a day; write a day of month that one of them has,"
    ' such as "0 0 28 2 *"'
)
_ZONE = "a time zone is a name of the IANA database, such as Europe/Berlin or UTC"


def _with(**changes: Any) -> dict[str, Any]:
    return {"spec.scaling.schedules": [{**_SCHEDULE, **changes}]}


SCALING_GOOD = (
    Good("a mode that only advises", {"spec.scaling.mode": "Advisory"}),
    Good("a schedule with a zone", _with()),
    Good("a schedule without a zone", _with(timeZone=None)),
    Good("a schedule with lists, steps and names", _with(cron="*/15 6,7,22-4 1-7/2 jan,mar-may mon-fri")),
    Good("a schedule of a whole week", _with(duration="168h")),
    Good("a schedule at the seventh day", _with(cron="59 23 31 12 7")),
    Good("a schedule of leap days", _with(cron="0 0 29-31 2 *")),
    Good("a schedule of a day that one of its months has", _with(cron="0 0 31 2,3,4 *")),
    Good("a schedule of a day that no month has, or a weekday", _with(cron="0 0 31 2 mon")),
    Good("a schedule in a zone of two slashes", _with(timeZone="America/Argentina/Buenos_Aires")),
)

SCALING_BAD = (
    Bad("a schedule at minute 60", _with(cron="60 8 * * *"), "spec.scaling.schedules[0].cron", _CRON),
    Bad("a schedule of four fields", _with(cron="0 8 * *"), "spec.scaling.schedules[0].cron", _CRON),
    Bad("a schedule with steps of nothing", _with(cron="*/0 8 * * *"), "spec.scaling.schedules[0].cron", _CRON),
    Bad("a schedule with a nickname", _with(cron="@daily"), "spec.scaling.schedules[0].cron", _CRON),
    *(
        Bad(f"a schedule that never comes, {cron}", _with(cron=cron), "spec.scaling.schedules[0].cron", _NEVER)
        for cron in ("0 0 31 2 *", "0 0 30,31 feb *", "*/5 8 31 4,jun,09-9,11 *", "0 0 30-31/5 02-feb *")
    ),
    Bad(
        "a schedule in a zone that is none", _with(timeZone="Mars/Olympus"), "spec.scaling.schedules[0].timeZone", _ZONE
    ),
    Bad("a schedule in an offset", _with(timeZone="+02:00"), "spec.scaling.schedules[0].timeZone", _ZONE),
    Bad(
        "a schedule that never ends",
        _with(duration="169h"),
        "spec.scaling.schedules[0].duration",
        "the duration must be at most a week, 168h",
    ),
    Bad(
        "a schedule of nothing",
        _with(duration="0s"),
        "spec.scaling.schedules[0].duration",
        "the duration must be above zero",
    ),
    Bad(
        "a schedule above maxReplicas",
        _with(minReplicas=9),
        "spec.scaling.schedules",
        "a schedule's minReplicas must not be above maxReplicas",
    ),
    Bad(
        "a schedule of no replica",
        _with(minReplicas=0),
        "spec.scaling.schedules[0].minReplicas",
        "must be at least 1",
        server="should be greater than or equal to 1",
    ),
)
