"""The handler of log lines: whose line it is, whether it is logged, and its text, all on the thread that logs."""

from __future__ import annotations

import copy
import logging
from typing import TYPE_CHECKING, Any

from ctrlhost.controller.context import bound_values, current
from ctrlhost.controller.places import HIDDEN, cause_of, name_of_file, place_of
from ctrlhost.controller.sentences import counted
from ctrlhost.host.log_sampling import Kind
from ctrlhost.request import Request

if TYPE_CHECKING:
    from collections.abc import Collection

    from ctrlhost.controller.causes import Cause
    from ctrlhost.host.log_sampling import LogSampler, Summary
    from ctrlhost.host.log_writer import LogWriter

#: The label of lines that no plugin has caused.
HOST = "_host"
_OF_PLUGINS = "ctrlhost.plugin."
#: The loggers of the host's lines about plugins: states, entries, calls of operators, leadership, CRDs.
_ABOUT_PLUGINS = ("ctrlhost.host", "ctrlhost.admin", "ctrlhost.leader_election", "ctrlhost.crds", "ctrlhost.dry_run")


class HostHandler(logging.Handler):
    """Formats a line on the thread that logs it, without a lock, and passes the text to the thread that writes.

    So a line whose object hangs while it is formatted holds up nobody else.
    """

    def __init__(
        self, formatter: logging.Formatter, sampler: LogSampler, writer: LogWriter, plugins: Collection[str]
    ) -> None:
        """Prepare; `plugins` are the names by which threads are attributed to plugins."""
        super().__init__()
        self.setFormatter(formatter)
        self._sampler = sampler
        self._writer = writer
        self._plugins = frozenset(plugins)

    def createLock(self) -> None:  # noqa: N802 - the name is that of logging
        """Do without a lock: a plugin's object that hangs while it is formatted would keep it."""
        self.lock = None

    def handle(self, record: logging.LogRecord) -> bool:
        """Log a record unless a filter of this handler, or the sampler, drops it; return whether it is logged."""
        kept: Any = self.filter(record)
        if not kept:
            return False
        # Since Python 3.12 a filter may return another record.
        return self._log(kept if isinstance(kept, logging.LogRecord) else record)

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record, as `handle` does after its filters."""
        self._log(record)

    def flush(self) -> None:
        """Wait for at most 2 seconds until all lines are written."""
        self._writer.flush()

    def _log(self, record: logging.LogRecord) -> bool:
        plugin, about = self._plugin_of(record)
        kind = None
        if plugin != HOST:
            kind = None if about else _kind_of(record)
            if not about and not self._sampler.admits(
                plugin, record.levelno, kind, _subject_of(record), _cause_of(record)
            ):
                return False
            if not hasattr(record, "plugin"):
                record.plugin = plugin
        if record.levelno >= logging.ERROR:
            _add_error(record)
        if kind is not None and record.exc_info and not self._sampler.traces(plugin, kind):
            record = _without_traceback(record)
        try:
            line = self.format(record)
        except Exception as error:  # noqa: BLE001 - an object of a plugin may raise anything while it is formatted
            line = self.format(_unformatted(record, error))
        if self._writer.put(line, reserved=about or plugin == HOST):
            return True
        self._sampler.drop(plugin, "full")
        return False

    def _plugin_of(self, record: logging.LogRecord) -> tuple[str, bool]:
        """Return the plugin of a line, and whether it is a line of the host about it, which is never dropped."""
        name = record.name
        if name.startswith(_OF_PLUGINS):
            return name.removeprefix(_OF_PLUGINS).partition(".")[0], False
        if name in _ABOUT_PLUGINS:
            return getattr(record, "plugin", HOST), True
        context = current.get()
        if context is not None and context.request is not None:
            return context.plugin, False
        plugin = getattr(record, "plugin", None) or bound_values().get("plugin")
        if plugin is None:
            # The threads of a plugin have names such as `naming/names worker 0` and `naming event loop`.
            plugin = (record.threadName or "").partition("/")[0].partition(" ")[0]
        # A field of a library may have the same name, and any type.
        return (plugin, False) if type(plugin) is str and plugin in self._plugins else (HOST, False)


def summary_record(summary: Summary) -> logging.LogRecord:
    """Return the line of a summary. It asks no plugin's object for its text."""
    error, place = summary.kind
    what = f"{error} at {place}" if error and place else error or place
    last, cause = _text(summary.subject), summary.cause
    more = f"{what} … and {summary.lines:,} more like it, {summary.lines / max(summary.seconds, 1.0):,.1f}/s"
    if cause is not None and cause.keys:
        more += f", {counted(cause.keys, 'key')} {'fails' if cause.keys == 1 else 'fail'} now"
    if last:
        more += f", last {last}"
    fields = {} if cause is None else {"controller": cause.controller, "cause": cause.id, "keys": cause.keys}
    return host_record(
        summary.level,
        more,
        plugin=summary.plugin,
        place=place,
        count=summary.lines,
        **({"error": error} if error else {}),
        **fields,
    )


def host_record(level: int, message: str, **fields: Any) -> logging.LogRecord:
    """Return a line of the host about the log itself."""
    name = logging.getLevelName(level)
    return logging.makeLogRecord(
        {"name": "ctrlhost.log", "levelno": level, "levelname": name, "msg": message, **fields}
    )


def _unformatted(record: logging.LogRecord, error: Exception) -> logging.LogRecord:
    place = _call_of(record)
    message = f"a log line of {record.name} at {place} cannot be formatted: {type(error).__name__}"
    return host_record(record.levelno, message, place=place, plugin=getattr(record, "plugin", HOST))


def _without_traceback(record: logging.LogRecord) -> logging.LogRecord:
    """Return a record without its traceback; other handlers get the record itself."""
    record = copy.copy(record)
    record.exc_info = record.exc_text = None
    return record


def _kind_of(record: logging.LogRecord) -> Kind | None:
    """Return the kind of an error or warning; None for any other line."""
    error, place = _error_of(record)
    return Kind(error, cause_of(place)) if error or record.levelno >= logging.WARNING else None


def _error_of(record: logging.LogRecord) -> tuple[str, str]:
    """Return the class and the place of the error of a line; of a line without one the place of the call."""
    error: Any = getattr(record, "error", None)
    if isinstance(error, str) and isinstance(place := getattr(record, "place", None), str):
        return error, place
    info = record.exc_info
    if info and info[0] is not None:
        return info[0].__name__, place_of(info[2]) or _call_of(record)
    return "", _call_of(record)


def _call_of(record: logging.LogRecord) -> str:
    """Return the place that logged a line."""
    return f"{name_of_file(record.pathname)}:{record.lineno}"


def _add_error(record: logging.LogRecord) -> None:
    """Add to an error what it lacks: its class and place, and in a reconcile the number of the attempt."""
    (error, place), context = _error_of(record), current.get()
    extra: dict[str, Any] = {"error": error} if error else {}
    # A place in ctrlhost does not help.
    if place != _call_of(record) or not record.pathname.startswith(HIDDEN):
        extra["place"] = place
    if context is not None and context.request is not None:
        extra["attempt"] = context.attempt
    # A line of structlog is a mapping.
    fields = record.msg if isinstance(record.msg, dict) else record.__dict__
    for name, value in extra.items():
        fields.setdefault(name, value)


def _subject_of(record: logging.LogRecord) -> Any:
    """Return the key of the reconcile that logs, else the field `key` of the line."""
    context = current.get()
    return context.request if context is not None and context.request is not None else getattr(record, "key", None)


def _cause_of(record: logging.LogRecord) -> Cause | None:
    """Return the cause for which the reconcile that logs has failed; None for other lines."""
    context, number = current.get(), getattr(record, "cause", None)
    cause = context.cause if context is not None and number is not None else None
    return cause if cause is not None and cause.id == number else None


def _text(subject: Any) -> str:
    """Return a key as text; its own text is not asked for, since that may be a plugin's code."""
    if type(subject) is Request:
        return "/".join(part for part in (subject.cluster, subject.namespace, subject.name) if part)
    return subject if type(subject) is str else ""
