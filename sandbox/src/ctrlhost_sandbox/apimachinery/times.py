"""Times in the formats of objects."""

from __future__ import annotations

import datetime as dt
import re
import time

from ctrlhost_sandbox.apimachinery import clock

_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\d)T(\d{1,2}):(\d\d:\d\d(?:\.(\d{1,9}))?(?:Z|[+-]\d\d:\d\d))", re.ASCII)


def now() -> str:
    """Return the current time in whole seconds, the format of creationTimestamp."""
    return seconds(clock.time())


def seconds(at: float) -> str:
    """Format seconds since the epoch in whole seconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def micro(at: float | None = None) -> str:
    """Format seconds since the epoch, by default the current time, with microseconds."""
    return formatted(dt.datetime.fromtimestamp(clock.time() if at is None else at, dt.UTC), micros=True)


def parse(text: str) -> dt.datetime:
    """Parse an RFC 3339 time, whose hour may have one digit as in Go; ValueError for anything else."""
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return dt.datetime.fromisoformat(f"{match[1]}T{match[2]:0>2}:{match[3]}").astimezone(dt.UTC)


def epoch(text: str) -> float:
    """Return the seconds since the epoch of an RFC 3339 time; 0 for an invalid one."""
    try:
        return parse(text).timestamp()
    except (ValueError, OverflowError):
        return 0.0


_PARTS = [
    (part, r"\d{1,2}" if part == "15" else rf"\d{{{len(part)}}}" if part.isdigit() else part)
    for part in re.findall(r"\d+|\D", "2006-01-02T15:04:05")
]
_ZONE = ("Z07:00", r"Z|[+-]\d\d:\d\d")
_RANGES = {
    "01": (1, 12, "month"),
    "02": (1, 31, "day"),
    "15": (0, 23, "hour"),
    "04": (0, 59, "minute"),
    "05": (0, 59, "second"),
}


def canonical(text: str, *, micros: bool = False) -> str:
    """Rewrite a time in UTC, with microseconds or whole seconds; ValueError for an invalid time.

    A MicroTime must have exactly six digits of its fraction, as in Kubernetes.
    """
    match = _RFC3339.fullmatch(text)
    if micros and (match is None or len(match[4] or "") != 6):
        raise ValueError(text)
    try:
        return formatted(parse(text), micros=micros)
    except OverflowError as error:
        raise ValueError(text) from error


def formatted(moment: dt.datetime, *, micros: bool) -> str:
    """Format a time in UTC, with microseconds or whole seconds."""
    return moment.replace(tzinfo=None).isoformat(timespec="microseconds" if micros else "seconds") + "Z"


def problem(text: str, *, micros: bool = False) -> str:
    """Return why a text is not a time, in the words of Go's parser."""
    parts = [*_PARTS, (".000000", r"\.\d{6}") if micros else ("", r"(\.\d+)?"), _ZONE]
    layout, at = "".join(name for name, _ in parts), 0
    for name, pattern in parts:
        match = re.compile(pattern, re.ASCII).match(text, at)
        if match is None:
            return f'parsing time "{text}" as "{layout}": cannot parse "{text[at:]}" as "{name}"'
        low, high, what = _RANGES.get(name, (0, 0, ""))
        if what and not low <= int(match[0]) <= high:
            return f'parsing time "{text}": {what} out of range'
        at = match.end()
    return f'parsing time "{text}": ' + (f'extra text: "{text[at:]}"' if text[at:] else "day out of range")
