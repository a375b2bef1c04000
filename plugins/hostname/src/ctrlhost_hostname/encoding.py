"""JSON and times as Go writes them, since the provider reads the status pages with a Go program."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

ZERO_TIME = "0001-01-01 00:00:00 +0000 UTC"

_ESCAPES = str.maketrans(
    {"<": r"\u003c", ">": r"\u003e", "&": r"\u0026", "\u2028": r"\u2028", "\u2029": r"\u2029"},
)


def to_json(entries: Mapping[str, Any]) -> bytes:
    """Encode compactly with sorted top-level keys, the characters of HTML escaped, and a newline at the end."""
    ordered = {key: entries[key] for key in sorted(entries, key=lambda key: key.encode("utf-8", "replace"))}
    text = json.dumps(ordered, ensure_ascii=False, separators=(",", ":"))
    # Outside strings JSON has none of these characters, so the text can be translated as a whole.
    return text.translate(_ESCAPES).encode("utf-8", "replace") + b"\n"


def go_time(timestamp: float | None) -> str:
    """Write seconds since the epoch as Go's `time.Time` prints them, in UTC; None is Go's zero time."""
    if timestamp is None:
        return ZERO_TIME
    moment = datetime.fromtimestamp(timestamp, UTC)
    fraction = f".{moment.microsecond:06d}".rstrip("0") if moment.microsecond else ""
    return f"{moment:%Y-%m-%d %H:%M:%S}{fraction} +0000 UTC"
