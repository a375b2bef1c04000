"""Schedules of CronJobs: five fields, or a name such as `@hourly`, as github.com/robfig/cron reads them."""

from __future__ import annotations

import re
from dataclasses import dataclass

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_NAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY = "@every "
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|ms|s|m|h)", re.ASCII)
_DURATION = re.compile(rf"([+-]?)(0|(?:{_PART.pattern})+)", re.ASCII)
_MAX_DURATION = 2**63 / 1e9
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class Schedule:
    """The times at which a job starts: in each minute that is in all sets, or every so many seconds."""

    minutes: frozenset[int] = frozenset()
    hours: frozenset[int] = frozenset()
    days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()
    """0 is Sunday."""
    any_day: bool = True
    """Whether the days of the month are `*`; if neither they nor the weekdays are, one of them is enough."""
    any_weekday: bool = True
    every: float = 0.0
    """The seconds between starts, 0 for a schedule of fields."""


def parse(text: str) -> Schedule:
    """Parse a schedule; ValueError says what is wrong. A leading `TZ=` or `CRON_TZ=` is skipped."""
    if text.startswith(("TZ=", "CRON_TZ=")):
        zone, _, text = text.partition(" ")
        if not text:
            raise ValueError(f"provided bad location {zone}")
    text = text.strip()
    if text.startswith("@"):
        if text.startswith(_EVERY):
            return Schedule(every=max(1.0, float(int(_duration(text)))))
        if text not in _NAMES:
            raise ValueError(f"unrecognized descriptor: {text}")
        text = _NAMES[text]
    parts = text.split()
    if len(parts) != 5:
        raise ValueError(f"expected exactly 5 fields, found {len(parts)}: {parts}")
    minute, hour, day, month, weekday = parts
    return Schedule(
        _field(minute, 0, 59),
        _field(hour, 0, 23),
        _field(day, 1, 31),
        _field(month, 1, 12, _MONTHS),
        _field(weekday, 0, 6, _DAYS),
        _is_star(day),
        _is_star(weekday),
    )


def _duration(text: str) -> float:
    """Return the seconds behind `@every`, a duration as Go writes it."""
    duration = text.removeprefix(_EVERY)
    match = _DURATION.fullmatch(duration)
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(duration))
    if match is None or seconds >= _MAX_DURATION:
        raise ValueError(f'failed to parse duration {text}: time: invalid duration "{duration}"')
    return -seconds if match[1] == "-" else seconds


def _is_star(field: str) -> bool:
    return any(
        part.partition("/")[0] in ("*", "?") and part.partition("/")[2] in ("", "1") for part in field.split(",")
    )


def _field(text: str, low: int, high: int, names: tuple[str, ...] = ()) -> frozenset[int]:
    moments: set[int] = set()
    for part in filter(None, text.split(",")):
        moments.update(_range(part, low, high, names))
    return frozenset(moments)


def _range(text: str, low: int, high: int, names: tuple[str, ...]) -> range:
    span, *steps = text.split("/")
    first, *last = span.split("-")
    if len(steps) > 1:
        raise ValueError(f"too many slashes: {text}")
    if len(last) > 1:
        raise ValueError(f"too many hyphens: {text}")
    if first in ("*", "?"):
        start, end = low, high
    else:
        start = _number(first, low, names)
        end = _number(last[0], low, names) if last else (high if steps else start)
    step = _number(steps[0], 0, ()) if steps else 1
    if start < low:
        raise ValueError(f"beginning of range ({start}) below minimum ({low}): {text}")
    if end > high:
        raise ValueError(f"end of range ({end}) above maximum ({high}): {text}")
    if start > end:
        raise ValueError(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if not step:
        raise ValueError(f"step of range should be a positive number: {text}")
    return range(start, end + 1, step)


def _number(text: str, low: int, names: tuple[str, ...]) -> int:
    if text.lower() in names:
        return names.index(text.lower()) + low
    if not re.fullmatch(r"[+-]?[0-9]{1,9}", text, re.ASCII):
        raise ValueError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    number = int(text)
    if number < 0:
        raise ValueError(f"negative number ({number}) not allowed: {text}")
    return number
