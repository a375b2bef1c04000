"""The text of a log line: a JSON object, or readable on a console."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from ctrlhost.controller.traces import trace_of

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

    Processor = Callable[[Any, str, MutableMapping[str, Any]], Any]

_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {9: " ", 10: "\\n", 13: "\\r"}
#: The fields that a JSON line begins with; the traceback is its last one.
_FIRST = ("ts", "level", "msg", "plugin", "controller", "key", "cause")
#: The part of an RFC 3339 time that a console shows: hours to milliseconds.
_TIME = slice(11, 23)
#: Fields that a console shows elsewhere, or not at all.
_SHOWN = ("ts", "level", "event", "logger", "plugin", "controller", "key", "stack", "exception", "stack_info")
_COLORS = {"debug": "2", "info": "32", "warning": "33", "error": "31", "critical": "31;1"}


def rendering(*, console: bool, colors: bool) -> list[Processor]:
    """Return the last steps of a line: readable, or as JSON."""
    if not console:
        return [_add_exception, _to_json]
    colored = colors and "NO_COLOR" not in os.environ
    return [_add_exception, lambda _logger, _method, event: _to_text(event, colored=colored)]


def _add_exception(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Make the traceback of a line text."""
    info = event.pop("exc_info", None)
    if info is True:
        info = sys.exc_info()
    error = info[1] if isinstance(info, tuple) and len(info) > 1 else info
    if isinstance(error, BaseException):
        event["exception"] = trace_of(error).text()
    return event


def _to_json(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
    event["msg"] = event.pop("event", "")
    exception = {"exception": event.pop("exception")} if "exception" in event else {}
    line = {name: event.pop(name) for name in _FIRST if name in event} | dict(event) | exception
    try:
        return msgspec.json.encode(line, enc_hook=str).decode()
    except Exception:  # noqa: BLE001 - a log line that cannot be encoded must not be lost
        return json.dumps({str(key): str(value) for key, value in line.items()})


def _to_text(event: MutableMapping[str, Any], *, colored: bool) -> str:
    """Return the time, the level, whose line it is, the message and further fields; a stack is below."""
    level = str(event.get("level", "info"))
    message = _one_line(event.get("event", ""))
    parts = [str(event.get("ts", ""))[_TIME], f"\x1b[{_COLORS.get(level, '0')}m{level}\x1b[0m" if colored else level]
    if who := _who(event):
        parts.append(f"{who}:")
    parts.append(message)
    for name, value in event.items():
        if name in _SHOWN or (name == "error" and str(value) in message):
            continue
        parts.append(f"{_one_line(name)}={_value(value)}")
    lines = [" ".join(parts)]
    stack = event.get("stack")
    if stack is not None:
        lines += map(_one_line, stack if isinstance(stack, list) else str(stack).splitlines())
    for name in ("stack_info", "exception"):
        if name in event:
            lines += map(_one_line, str(event[name]).splitlines())
    return "\n".join(lines)


def _who(event: MutableMapping[str, Any]) -> str:
    """Return the controller and the key, or the plugin; empty for a line of the host, which names what it is about."""
    words = [event[name] for name in ("controller", "key") if event.get(name)]
    logger = str(event.get("logger", ""))
    if (
        not words
        and event.get("plugin")
        and (logger.startswith("ctrlhost.plugin.") or not logger.startswith("ctrlhost."))
    ):
        words = [event["plugin"]]
    return " ".join(map(_one_line, words))


def _value(value: Any) -> str:
    text = _one_line(value)
    return repr(text) if not text or " " in text or "=" in text else text


def _one_line(text: Any) -> str:
    # Names and messages of objects: a newline or an escape sequence in them must not forge a line.
    return str(text).translate(_CONTROL)
