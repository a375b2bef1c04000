"""How log lines look and what each carries.

All code logs with the standard library's `logging`. The command line configures the output once: readable lines on a
terminal, a JSON object per line elsewhere, always on stderr. Each line of a reconcile names its controller, object
and reconcile id; whoever does other work may bind what its lines should carry.
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

#: Libraries whose information is noise below this level.
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
    """Send log lines of the whole process to `stream`, stderr by default; called again, it replaces what it did."""
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
    # A plugin may log with structlog itself; its lines then go the same way.
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def _structlog() -> Any:
    # structlog imports rich where it is installed, for tracebacks that are not drawn here: 0.4 s of every start.
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
    # Another handler that formats the record first leaves these on it, and they are no extras.
    event.pop("message", None)
    event.pop("asctime", None)
    for key, value in (*log_fields().items(), *bound_values().items()):
        event.setdefault(key, value)
    return event


def _escape_control(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    # Names and messages of objects end up in lines: a newline or an escape sequence there must not forge one.
    event["event"] = str(event.get("event", "")).translate(_CONTROL)
    return event


def _to_json(event: dict[str, Any], **_unused: Any) -> str:
    try:
        return msgspec.json.encode(event, enc_hook=str).decode()
    except Exception:  # noqa: BLE001 - a log line that can not be written as it is must not be lost
        return json.dumps({str(key): str(value) for key, value in event.items()})
