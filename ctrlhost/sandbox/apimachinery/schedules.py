"""Cron schedules, with the syntax, the meaning and the error texts of the real controller's library (robfig/cron)."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from typing import Protocol
from zoneinfo import ZoneInfo

_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = "@every "
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_YEARS = 5
"""How far ahead a schedule is searched for its next time."""


class Schedule(Protocol):
    """When something runs."""

    def after(self, moment: float) -> float | None:
        """Return the first time after `moment`, both in seconds since the epoch; None if there is none for years."""


@dataclass(frozen=True, slots=True)
class _Every:
    seconds: int

    def after(self, moment: float) -> float:
        return int(moment) + self.seconds


@dataclass(frozen=True, slots=True)
class _Field:
    """The values of a field. A star matters for days: only two restricted fields of days are alternatives."""

    values: frozenset[int]
    starred: bool


@dataclass(frozen=True, slots=True)
class _Cron:
    minutes: _Field
    hours: _Field
    days: _Field
    months: _Field
    weekdays: _Field
    zone: dt.tzinfo

    def after(self, moment: float) -> float | None:
        at = moment // 60 * 60 + 60
        last = dt.datetime.fromtimestamp(at, self.zone).year + _YEARS
        while (local := dt.datetime.fromtimestamp(at, self.zone)).year <= last:
            if not self._is_day(local):
                midnight = dt.datetime.combine(local.date() + dt.timedelta(1), dt.time(), self.zone)
                at = midnight.timestamp()
            elif local.hour not in self.hours.values:
                at += 3600 - local.minute * 60
            elif local.minute not in self.minutes.values:
                at += 60
            else:
                return at
        return None

    def _is_day(self, local: dt.datetime) -> bool:
        if local.month not in self.months.values:
            return False
        found = (local.day in self.days.values, local.isoweekday() % 7 in self.weekdays.values)
        return all(found) if self.days.starred or self.weekdays.starred else any(found)


def parse(text: str, zone: str = "") -> Schedule:
    """Parse a schedule in a time zone, UTC by default; ValueError if one of them is invalid."""
    if not text:
        raise ValueError("empty spec string")
    if prefix := re.match(r"(?:CRON_)?TZ=(\S*) ", text):
        zone, text = prefix[1], text[prefix.end() :].strip()
    place = load_zone(zone)
    if text.startswith(_EVERY):
        return _Every(max(int(_duration(text)), 1))
    if text.startswith("@") and text not in _DESCRIPTORS:
        raise ValueError(f"unrecognized descriptor: {text}")
    fields = _DESCRIPTORS.get(text, text).split()
    if len(fields) != 5:
        raise ValueError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    bounds = ((0, 59, ()), (0, 23, ()), (1, 31, ()), (1, 12, _MONTHS), (0, 6, _DAYS))
    return _Cron(*(_field(field, *bound) for field, bound in zip(fields, bounds, strict=True)), place)


def load_zone(name: str) -> dt.tzinfo:
    """Return a time zone by its IANA name, UTC for an empty one; ValueError for an unknown one."""
    if name in ("", "UTC"):
        return dt.UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise ValueError(f"unknown time zone {name}") from error


def _field(text: str, low: int, high: int, names: tuple[str, ...]) -> _Field:
    values: set[int] = set()
    starred = False
    for part in filter(None, text.split(",")):
        span, *steps = part.split("/")
        first, *others = span.split("-")
        if len(others) > 1 and first not in ("*", "?"):
            raise ValueError(f"too many hyphens: {part}")
        if len(steps) > 1:
            raise ValueError(f"too many slashes: {part}")
        if first in ("*", "?"):
            start, end = low, high
        else:
            start = _number(first, low, names)
            end = _number(others[0], low, names) if others else high if steps else start
        step = _number(steps[0], low, ()) if steps else 1
        starred = starred or (first in ("*", "?") and step == 1)
        if start < low:
            raise ValueError(f"beginning of range ({start}) below minimum ({low}): {part}")
        if end > high:
            raise ValueError(f"end of range ({end}) above maximum ({high}): {part}")
        if start > end:
            raise ValueError(f"beginning of range ({start}) beyond end of range ({end}): {part}")
        if not step:
            raise ValueError(f"step of range should be a positive number: {part}")
        values.update(range(start, end + 1, step))
    return _Field(frozenset(values), starred)


def _number(text: str, low: int, names: tuple[str, ...]) -> int:
    if text.lower() in names:
        return names.index(text.lower()) + low
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise ValueError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    number = int(text)
    if number < 0:
        raise ValueError(f"negative number ({number}) not allowed: {text}")
    return number


def _duration(text: str) -> float:
    parts = text.removeprefix(_EVERY)
    if not re.fullmatch(r"\+?((\d+(\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h))+", parts):
        raise ValueError(f'failed to parse duration {text}: time: invalid duration "{parts}"')
    return sum(float(one[0]) * _UNITS[one[1]] for one in re.findall(r"([\d.]+)(ns|us|µs|ms|s|m|h)", parts))
