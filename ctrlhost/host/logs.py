"""Logging: the format of log lines and the fields of each.

All code uses the standard library's `logging`. The command line configures the output once: readable lines on a
terminal, otherwise a JSON object per line, always on stderr. Each line of a reconcile carries its controller, object
and reconcile id; other work may bind its own fields.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TextIO

from ctrlhost.config.settings import DEFAULT_LOG_LINES
from ctrlhost.controller.context import bound_values, log_fields
from ctrlhost.errors import ConfigError
from ctrlhost.host.log_handler import HOST, HostHandler, host_record, summary_record
from ctrlhost.host.log_levels import find_loggers, levels
from ctrlhost.host.log_lines import rendering
from ctrlhost.host.log_sampling import LogSampler
from ctrlhost.host.log_writer import LogWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping, Sequence

#: The minimum levels of libraries that log too much.
_QUIET = {
    "asyncio": logging.WARNING,
    "kubernetes": logging.WARNING,
}
#: The loggers of lines that threads of the host write.
_OF_HOST = ("ctrlhost", "asyncio")


#: What `configure` made last; None before.
_sampler: LogSampler | None = None
_writer: LogWriter | None = None
_reports: _Reports | None = None
_end: Callable[[], None] = logging.shutdown


def configure(
    level: str = "info",
    form: Literal["auto", "console", "json"] = "auto",
    stream: TextIO | None = None,
    *,
    plugins: Sequence[str] = (),
    log_lines: Callable[[str], float] = lambda _plugin: DEFAULT_LOG_LINES,
    log_levels: Mapping[str, str] = MappingProxyType({}),
    process_of: str = "",
) -> LogWriter:
    """Send the log lines of the whole process to `stream`, by default stderr; a later call replaces an earlier one.

    A thread writes them; the returned writer can wait for it. `plugins` are the names of the plugins that run, and
    `log_lines` returns how many lines a second each may write on average; 0 is any number. `log_levels` are the minimum
    levels by plugin or logger, of which unknown ones are left out. Lines of the host do not
    reach handlers of the root logger. In the process of an isolated plugin, each line names `process_of` as the plugin,
    and the number of the process.
    """
    global _sampler, _writer, _reports
    structlog = _structlog()
    target = stream or sys.stderr
    on_terminal = target.isatty()
    shared = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        _add_bound,
        *([_adder(plugin=process_of, pid=os.getpid())] if process_of else []),
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
    ]
    render = rendering(console=form == "console" or (form == "auto" and on_terminal), colors=on_terminal)
    remove_meta = structlog.stdlib.ProcessorFormatter.remove_processors_meta
    formatter = structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=[remove_meta, *render])
    sampler = LogSampler(log_lines)
    reports = _Reports(sampler, formatter)
    writer = LogWriter(target, reports.due, lambda count: sampler.drop(HOST, "full", count))
    if _writer is not None:
        _writer.close()
    _sampler, _writer, _reports = sampler, writer, reports
    # Each has a handler of its own: a plugin may change or remove that of the root logger.
    for name in ("", *_OF_HOST):
        logger = logging.getLogger(name)
        for old in [old for old in logger.handlers if isinstance(old, HostHandler)]:
            logger.removeHandler(old)
        logger.addHandler(HostHandler(formatter, sampler, writer, plugins))
        logger.propagate = not name
    set_levels(level, log_levels, plugins)
    # Plugins may use structlog directly; their lines get the same processing.
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    _end_in_time()
    return writer


def set_levels(level: str, log_levels: Mapping[str, str], plugins: Sequence[str]) -> None:
    """Set the minimum levels, of the host and by plugin or logger, instead of all that were set before."""
    levels.reset()
    for name in ("", *_OF_HOST):
        logging.getLogger(name).setLevel(max(_QUIET.get(name, 0), logging.getLevelNamesMapping()[level.upper()]))
    for name in _QUIET.keys() - set(_OF_HOST):
        logging.getLogger(name).setLevel(max(_QUIET[name], logging.getLogger().level))
    for name, minimum in log_levels.items():
        with suppress(ConfigError):
            levels.set(find_loggers(name, plugins), minimum)


def sum_up() -> None:
    """Log the summaries of all lines that were left out so far, instead of when they are due."""
    if _writer is not None and _reports is not None:
        for line in _reports.due(all_of_them=True):
            _writer.put(line, reserved=True)


def end() -> None:
    """Write what is left, for at most 2 seconds, and shut down the handlers of plugins, for at most 1 second.

    Later lines are lost. The end of the process calls this, but not `os._exit`.
    """
    _end()


def dropped() -> Mapping[tuple[str, str], int]:
    """Return the numbers of lines that were not logged, by plugin and reason; empty before `configure`."""
    return {} if _sampler is None else _sampler.dropped


def _forked() -> None:
    """Continue to log in a forked child."""
    if _sampler is not None and _writer is not None:
        _sampler.forked()
        _writer.forked()


# Not on Windows, which cannot fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class _Reports:
    """The lines about lines that were not logged."""

    def __init__(self, sampler: LogSampler, formatter: logging.Formatter) -> None:
        self._sampler = sampler
        self._formatter = formatter
        self._full = 0

    def due(self, *, all_of_them: bool = False) -> list[str]:
        """Return the summaries that are due, or all, and how many lines were lost since the output was too slow.

        Also one about lines that were off until now.
        """
        records = [summary_record(summary) for summary in self._sampler.summaries(all_of_them=all_of_them)]
        full = sum(count for (_, reason), count in self._sampler.dropped.items() if reason == "full")
        if full > self._full:
            text = f"dropped {full - self._full} log lines: they were not written in time"
            records.append(host_record(logging.WARNING, text, count=full - self._full))
            self._full = full
        if why := _turned_on():
            hint = "use `disable_existing_loggers: false` in a plugin's own configuration of logging"
            text = f"log lines of the host were off because of {why}; they are on again (hint: {hint})"
            records.append(host_record(logging.WARNING, text))
        return [self._formatter.format(record) for record in records]


def _turned_on() -> str:
    """Turn the loggers of the host on again, and return what turned them off; empty if they were on.

    A plugin that configures logging does so for the whole process.
    """
    manager = logging.root.manager
    # The second has a level of its own.
    if manager.disable >= min(logging.getLogger(name).getEffectiveLevel() for name in ("ctrlhost", "ctrlhost.admin")):
        logging.disable(logging.NOTSET)
        return "`logging.disable`"
    loggers = [logger for logger in list(manager.loggerDict.values()) if isinstance(logger, logging.Logger)]
    off = [logger for logger in loggers if logger.disabled and logger.name.partition(".")[0] in _OF_HOST]
    for logger in off:
        logger.disabled = False
    return "`logging.config`" if off else ""


def _end_in_time() -> None:
    """At the end of the process write what is left; a plugin's handler that hangs does not delay that."""

    def end() -> None:
        sum_up()
        if _writer is not None:
            _writer.close(logging.shutdown)

    global _end
    # `logging` waits for the lock of each handler, whoever has it, so not on the thread that ends the process.
    for registered in (logging.shutdown, _end):
        atexit.unregister(registered)
    _end = atexit.register(end)


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


def _adder(**fields: Any) -> Callable[[Any, str, MutableMapping[str, Any]], MutableMapping[str, Any]]:
    """Return a processor that adds fields which a line lacks."""

    def add(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        for name, value in fields.items():
            event.setdefault(name, value)
        return event

    return add
