"""The times of cron schedules in time zones, as github.com/robfig/cron finds them."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from ctrlhost_sandbox.apimachinery.cron import Schedule

_YEARS = 5
"""How far ahead the next time is searched for."""
_FIRST, _LAST = 0.0, dt.datetime(9999, 1, 1, tzinfo=dt.UTC).timestamp()
"""The calendar ends with the year 9999."""


def load_zone(name: str) -> dt.tzinfo:
    """Return a time zone by its IANA name, UTC for an empty one; ValueError for an unknown one."""
    if not name:
        return dt.UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(f"unknown time zone {name}") from error


def after(schedule: Schedule, moment: float, zone: dt.tzinfo) -> float | None:
    """Return the first time after `moment`, both in seconds since the epoch; None if there is none for five years.

    There are none before 1970 and after 9998.
    A local time that a change of the clocks skips is left out, and one that it repeats comes twice.
    """
    if schedule.every:
        return int(moment) + schedule.every
    if moment >= _LAST or not schedule.minutes or not schedule.hours:
        return None
    at = max(moment, _FIRST) // 60 * 60 + 60
    last = min(dt.datetime.fromtimestamp(at, zone).year + _YEARS, dt.MAXYEAR - 1)
    while (local := dt.datetime.fromtimestamp(at, zone)).year <= last:
        if not _is_day(schedule, local):
            at = dt.datetime.combine(local.date() + dt.timedelta(1), dt.time(), zone).timestamp()
        elif local.hour not in schedule.hours:
            at += 3600 - local.minute * 60
        elif local.minute not in schedule.minutes:
            at += 60
        else:
            return at
    return None


def _is_day(schedule: Schedule, local: dt.datetime) -> bool:
    if local.month not in schedule.months:
        return False
    matches = (local.day in schedule.days, local.isoweekday() % 7 in schedule.weekdays)
    return all(matches) if schedule.any_day or schedule.any_weekday else any(matches)
