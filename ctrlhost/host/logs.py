"""Logging: the format of log lines and the fields of each.

All code uses the standard library's `logging`. The command line configures the output once: readable lines on a
terminal, otherwise a JSON object per line, always on stderr. Each line of a reconcile carries its controller, object
and reconcile id; other work may bind its own fields.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from typing import TYPE_CHECKING, Any, Literal, TextIO

import msgspec

from ctrlhost.controller.context import bound_values, log_fields

if TYPE_CHECKING:
    from collections.abc import MutableMapping

_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), 127)} | {9: " ", 10: "\\n", 13: "\\r"}

#: The minimum levels of libraries that log too much.
_QUIET = {
    "urllib3": logging.ERROR,
    "uvicorn": logging.WARNING,
    "uvicorn.access": logging.WARNING,
    "asyncio": logging.WARNING,
    "kubernetes": logging.WARNING,
}


def configure(
    level: str = "info", form: Literal["auto", "console", "json"] = "auto", stream: TextIO | None = None
) -> None:
    """Send the log lines of the whole process to `stream`, by default stderr; a later call replaces an earlier one."""
    structlog = _structlog()
    target = stream or sys.stderr
    on_terminal = target.isatty()
    console = form == "console" or (form == "auto" and on_terminal)
    shared = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        _add_bound,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
    ]
    if console:
        render = [
            _escape_control,
            structlog.dev.ConsoleRenderer(
                colors=on_terminal and "NO_COLOR" not in os.environ,
                exception_formatter=structlog.dev.plain_traceback,
                timestamp_key="ts",
                pad_event_to=0,
            ),
        ]
    else:
        render = [
            structlog.processors.format_exc_info,
            structlog.processors.EventRenamer("msg"),
            structlog.processors.JSONRenderer(serializer=_to_json),
        ]
    handler = logging.StreamHandler(target)
    handler.set_name("ctrlhost")
    remove_meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=[remove_meta, *render])
    )
    root = logging.getLogger()
    for old in [old for old in root.handlers if old.get_name() == "ctrlhost"]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name, least in _QUIET.items():
        logging.getLogger(name).setLevel(max(least, root.level))
    # Plugins may use structlog directly; their lines get the same processing.
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def _structlog() -> Any:
    # structlog imports rich, if installed, for tracebacks that are not used here, which takes 0.4 s at the start.
    if "structlog" in sys.modules or "rich" in sys.modules:
        import structlog
    else:
        sys.modules["rich"] = None  # type: ignore[assignment]
        try:
            import structlog
        finally:
            del sys.modules["rich"]
    return structlog


def _add_bound(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    # An earlier handler leaves these on the record when it formats it; they are not extras.
    event.pop("message", None)
    event.pop("asctime", None)
    for key, value in (*log_fields().items(), *bound_values().items()):
        event.setdefault(key, value)
    return event


def _escape_control(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    # Lines contain names and messages of objects: a newline or an escape sequence in them must not forge a line.
    event["event"] = str(event.get("event", "")).translate(_CONTROL)
    return event


def _to_json(event: dict[str, Any], **_unused: Any) -> str:
    try:
        return msgspec.json.encode(event, enc_hook=str).decode()
    except Exception:  # noqa: BLE001 - a log line that cannot be encoded must not be lost
        return json.dumps({str(key): str(value) for key, value in event.items()})
