"""Which schedules are in force at a moment, and when that changes next. Pure; time zones are a table.

A schedule begins at each local time that its cron expression names, and lasts its duration. Days are looked at, not
minutes: the begins of the last week are at most eight days of at most 1440 times.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from modelfleet.api.cron import Times, times
from modelfleet.api.schedules import Schedule


@dataclass(frozen=True, kw_only=True)
class InForce:
    """The schedule that asks for most, by its place in the list; `until` is when it ends."""

    index: int
    min_replicas: int
    until: datetime


def in_force(schedules: tuple[Schedule, ...], now: datetime, ahead_s: float) -> InForce | None:
    """The schedule that asks for most replicas now; it counts from `ahead_s` before it begins. None: none is."""
    found: InForce | None = None
    for index, each in enumerate(schedules):
        lasts = timedelta(seconds=each.duration.seconds)
        begin = _last_begin(each, now + timedelta(seconds=ahead_s), lasts + timedelta(seconds=ahead_s))
        if begin is None or begin + lasts <= now:
            continue
        if found is None or each.min_replicas > found.min_replicas:
            found = InForce(index=index, min_replicas=each.min_replicas, until=begin + lasts)
    return found


def next_change_s(schedules: tuple[Schedule, ...], now: datetime, ahead_s: float) -> float | None:
    """Seconds until what is in force may change; at most a day, because clocks are set. None: no schedules."""
    if not schedules:
        return None
    soonest = timedelta(days=1)
    for each in schedules:
        lasts = timedelta(seconds=each.duration.seconds)
        begin = _last_begin(each, now + timedelta(seconds=ahead_s), lasts + timedelta(seconds=ahead_s))
        if begin is not None and begin + lasts > now:
            soonest = min(soonest, begin + lasts - now)
        coming = _next_begin(each, now + timedelta(seconds=ahead_s))
        if coming is not None:
            soonest = min(soonest, coming - timedelta(seconds=ahead_s) - now)
    return max(1.0, soonest.total_seconds())


def _last_begin(schedule: Schedule, until: datetime, within: timedelta) -> datetime | None:
    """The last begin at or before `until`, at most `within` ago."""
    zone, parsed = _zone(schedule), times(str(schedule.cron))
    day = until.astimezone(zone).date()
    for back in range(within.days + 3):
        last = _last_of(parsed, day - timedelta(days=back), zone, until)
        if last is not None:
            return last if until - last <= within else None
    return None


def _next_begin(schedule: Schedule, after: datetime) -> datetime | None:
    """The first begin after `after`, if there is one within the next two days."""
    zone, parsed = _zone(schedule), times(str(schedule.cron))
    day = after.astimezone(zone).date()
    found = (_first_of(parsed, day + timedelta(days=ahead), zone, after) for ahead in range(3))
    return next((begin for begin in found if begin is not None), None)


def _last_of(parsed: Times, day: date, zone: ZoneInfo, until: datetime) -> datetime | None:
    """The last begin of a local day at or before `until`. A cron of every minute has 1440, so where the day is an even
    one, they are not all made to find it."""
    offset = _even(day, zone)
    if offset is None:
        return max((begin for begin in _begins(parsed, day, zone) if begin <= until), default=None)
    midnight = datetime.combine(day, time(), UTC) - offset
    last = (until - midnight) // _MINUTE
    found = (60 * hour + minute for hour in reversed(parsed.hours) for minute in reversed(parsed.minutes))
    at = next((each for each in found if each <= last), None) if parsed.on(day) else None
    return midnight + at * _MINUTE if at is not None else None


def _first_of(parsed: Times, day: date, zone: ZoneInfo, after: datetime) -> datetime | None:
    """The first begin of a local day after `after`."""
    offset = _even(day, zone)
    if offset is None:
        return min((begin for begin in _begins(parsed, day, zone) if begin > after), default=None)
    midnight = datetime.combine(day, time(), UTC) - offset
    first = (after - midnight) // _MINUTE
    found = (60 * hour + minute for hour in parsed.hours for minute in parsed.minutes)
    at = next((each for each in found if each > first), None) if parsed.on(day) else None
    return midnight + at * _MINUTE if at is not None else None


_MINUTE = timedelta(minutes=1)


@lru_cache(maxsize=4096)
def _even(day: date, zone: ZoneInfo) -> timedelta | None:
    """The zone's offset on a day on which no clock changes; None on one that has several."""
    hours = {datetime.combine(day, time(hour), zone).utcoffset() for hour in range(24)}
    hours.add(datetime.combine(day, time(23, 59, 59), zone).utcoffset())
    (only, *others) = hours
    return None if others else only


def _begins(parsed: Times, day: date, zone: ZoneInfo) -> Iterator[datetime]:
    """The begins of a local day, as times of UTC. One that a clock change leaves out is moved by that change."""
    if not parsed.on(day):
        return
    for hour in parsed.hours:
        for minute in parsed.minutes:
            yield datetime.combine(day, time(hour, minute), zone).astimezone(UTC)


@lru_cache(maxsize=256)
def _named(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def _zone(schedule: Schedule) -> ZoneInfo:
    return _named(str(schedule.time_zone))
