"""Cron expressions: their form, what they mean, and those that never come. Pure.

The form is one pattern, so that the API server and we refuse the same ones. A library would make the base install,
which the command line shares, need more than pydantic.
"""

from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import ClassVar

from modelfleet.api.values import Clause, Value, matches

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


_FORM = matches(
    _CRON,
    "a cron expression is five fields apart by one space: minute, hour, day of month, month, day of week, such"
    ' as "0 8 * * 1-5"; names are lower-case, such as mon-fri',
)


@dataclass(frozen=True)
class Times:
    """A parsed cron expression. `days` and `weekdays` (0 is Sunday) are None where the field is `*`; where both are
    given, either will do, as in every cron."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int] | None
    months: frozenset[int]
    weekdays: frozenset[int] | None

    def on(self, day: date) -> bool:
        """Whether the schedule begins on that day at all."""
        if day.month not in self.months:
            return False
        in_month = self.days is None or day.day in self.days
        in_week = self.weekdays is None or day.isoweekday() % 7 in self.weekdays
        return in_month or in_week if None not in (self.days, self.weekdays) else in_month and in_week


@lru_cache(maxsize=1024)
def times(cron: str) -> Times:
    """The times of a valid expression."""
    minute, hour, day, month, weekday = cron.split(" ")
    return Times(
        minutes=tuple(sorted(_values(minute, 0, 59))),
        hours=tuple(sorted(_values(hour, 0, 23))),
        days=None if day == "*" else frozenset(_values(day, 1, 31)),
        months=frozenset(_values(month, 1, 12, {word: at for at, word in enumerate(MONTHS, 1)})),
        weekdays=None
        if weekday == "*"
        else frozenset(each % 7 for each in _values(weekday, 0, 6, {word: at for at, word in enumerate(DAYS)})),
    )


def _values(field: str, low: int, high: int, words: dict[str, int] | None = None) -> set[int]:
    """The numbers of a field. A range that ends before it begins goes on over the end: 22-4 are hours of a night."""
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        every = int(step or 1)
        if first == "*":
            found.update(range(low, high + 1, every))
            continue
        start = _number(first, words)
        end = _number(last, words) if last else (high if step else start)
        if end >= start:
            found.update(range(start, end + 1, every))
        else:
            around = [*range(start, high + 1), *range(low, end + 1)]
            found.update(around[::every])
    return found


def _number(text: str, words: dict[str, int] | None) -> int:
    return words[text] if words and text in words else int(text)


_DAYS_OF = {month: 31 for month in range(1, 13)} | {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}


def _comes(cron: str) -> bool:
    """Whether there is ever a day that it names; true for what has another form, which another sentence refuses."""
    if not _FORM.holds(cron):
        return True
    parsed = times(cron)
    longest = max(_DAYS_OF[month] for month in parsed.months)
    return parsed.days is None or parsed.weekdays is not None or min(parsed.days) <= longest


def _only(*parts: str) -> str:
    """A field whose values are all among those of `parts`."""
    one = f"({'|'.join(parts)})"
    return f"{one}(,{one})*"


_SHORT = {2: "0?2|feb", 4: "0?4|apr", 6: "0?6|jun", 9: "0?9|sep", 11: "11|nov"}
_ONLY_31 = _only("31(-31)?(/[1-9][0-9]?)?")
_ONLY_30 = _only("(30|31|30-30|30-31|31-31)(/[1-9][0-9]?)?")
_ONLY_SHORT = _only(*(f"({month})(-({month}))?" for month in _SHORT.values()))
_ONLY_FEBRUARY = _only(f"({_SHORT[2]})(-({_SHORT[2]}))?")
_NEVER = rf"[^ ]+ [^ ]+ ({_ONLY_31} {_ONLY_SHORT}|{_ONLY_30} {_ONLY_FEBRUARY}) [*]"
"""Those that are refused by the API server too. Months in steps, and ranges of them that go on over the year's end, are
looked at in Python alone: a pattern of all of them would be pages long."""


class Cron(Value):
    """A cron expression of five fields, as in a CronJob, that comes again and again."""

    __slots__ = ()
    max_length = 100
    clauses: ClassVar[tuple[Clause, ...]] = (
        _FORM,
        Clause(
            f"!self.matches('^({_NEVER})$')",
            _comes,
            "the cron expression never comes: none of its months has such a day; write a day of month that one of them"
            ' has, such as "0 0 28 2 *"',
        ),
    )
