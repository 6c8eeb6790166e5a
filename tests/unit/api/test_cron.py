"""Cron expressions that never come are refused, and no others."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from modelfleet.api.cron import Cron, times

_EIGHT_YEARS = [date(2024, 1, 1) + timedelta(days=day) for day in range(8 * 365)]
_DAY = st.sampled_from(["*", "1", "29", "30", "31", "30-31", "31-1/2", "29/2", "30/1", "31-31", "*/31"])
_MONTH = st.sampled_from(["*", "2", "feb", "2-2", "4", "jun", "9-11/2", "4-6/2", "2/12", "11-2/3", "1", "6-9"])


@given(
    days=st.lists(_DAY, min_size=1, max_size=2),
    months=st.lists(_MONTH, min_size=1, max_size=3),
    weekday=st.sampled_from(["*", "mon", "*/2"]),
)
def test_what_is_refused_has_no_day_in_eight_years_and_what_is_taken_has_one(
    days: list[str], months: list[str], weekday: str
) -> None:
    cron = f"0 8 {','.join(days)} {','.join(months)} {weekday}"
    if any(map(times(cron).on, _EIGHT_YEARS)):
        assert Cron(cron) == cron
    else:
        with pytest.raises(ValueError, match="never comes: none of its months has such a day"):
            Cron(cron)
