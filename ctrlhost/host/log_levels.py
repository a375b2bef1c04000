"""The levels of single loggers: those of the setting `log_levels`, and changes that end by themselves."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from ctrlhost.config.types import canonical, suggest
from ctrlhost.errors import ConfigError
from ctrlhost.supervisor.loader import installed_plugins

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ctrlhost.supervisor.channel import LogLevel

_OF_PLUGIN = "ctrlhost.plugin."
#: The host's own loggers; what is before a dot may be named, too.
LOGGERS = (
    "ctrlhost.client.credentials",
    "ctrlhost.client.kubeconfig",
    "ctrlhost.client.transport",
    "ctrlhost.config",
    "ctrlhost.controller",
    "ctrlhost.crds",
    "ctrlhost.dry_run",
    "ctrlhost.events",
    "ctrlhost.host",
    "ctrlhost.informers.encodings",
    "ctrlhost.informers.list_log",
    "ctrlhost.informers.negotiation",
    "ctrlhost.informers.pager",
    "ctrlhost.informers.reflector",
    "ctrlhost.informers.skips",
    "ctrlhost.informers.watcher",
    "ctrlhost.leader_election",
    "ctrlhost.metrics",
    "ctrlhost.plugin",
    "ctrlhost.sandbox",
    "ctrlhost.server",
    "ctrlhost.task",
)


def loggers_of(name: str, plugins: Iterable[str]) -> tuple[str, ...]:
    """Return the loggers that `name` means, one of `plugins` or a logger; ConfigError for an unknown one.

    A plugin's are those of its context and of its package. Loggers of other libraries are known once they exist.
    """
    installed, named = installed_plugins(), sorted(set(plugins))
    packages = {
        one: {each.target.partition(":")[0].partition(".")[0] for each in installed.get(one, ())} for one in named
    }
    # In the environment, `-` is `_`.
    for one in packages:
        if canonical(one) == canonical(name):
            return (f"{_OF_PLUGIN}{one}", *sorted(packages[one]))
    known = {name[:end] for name in LOGGERS for end in (*_dots(name), len(name))}
    known |= {f"{_OF_PLUGIN}{one}" for one in named}.union(*packages.values())
    outer = {name[:end] for end in _dots(name)} & (known - {"ctrlhost", "ctrlhost.plugin"})
    if name in known or outer or isinstance(logging.root.manager.loggerDict.get(name), logging.Logger):
        return (name,)
    raise ConfigError(f"no plugin and no logger `{name}`", hint=suggest(name, known | set(named)))


def check(levels: Mapping[str, str], plugins: Iterable[str]) -> None:
    """Raise ConfigError for the first name of the setting `log_levels` that is neither a plugin nor a logger."""
    named = list(plugins)
    for name in levels:
        try:
            loggers_of(name, named)
        except ConfigError as error:
            raise ConfigError(f"host.log_levels: {error.message}", hint=error.hint) from None


class LogLevels:
    """The levels of single loggers of this process. Methods may be called from any thread."""

    def __init__(self) -> None:
        """Start without changes."""
        self._lock = threading.Lock()
        #: The levels before all changes, and those to which loggers go back by themselves.
        self._before: dict[str, int] = {}
        self._ends: dict[str, tuple[threading.Timer, int]] = {}
        #: The changes, with the times by time.monotonic at which they end, if they do.
        self._changes: dict[str, tuple[str, float | None]] = {}

    def set(self, loggers: Iterable[str], level: str, seconds: float = 0.0) -> None:
        """Set the level of these loggers, for some seconds, or with 0 until `reset`."""
        with self._lock:
            for name in loggers:
                logger = logging.getLogger(name)
                timer, back = self._ends.pop(name, (None, logger.level))
                if timer is not None:
                    timer.cancel()
                self._before.setdefault(name, logger.level)
                logger.setLevel(logging.getLevelNamesMapping()[level.upper()])
                self._changes[name] = level, time.monotonic() + seconds if seconds else None
                if seconds:
                    timer = threading.Timer(seconds, self._go_back, (name,))
                    timer.daemon = True
                    self._ends[name] = (timer, back)
                    timer.start()

    def changes(self) -> tuple[LogLevel, ...]:
        """Return the changes that have not ended, for another process."""
        # Not for a host without such processes, whose start it would delay.
        from ctrlhost.supervisor.channel import LogLevel

        with self._lock:
            now = time.monotonic()
            return tuple(
                LogLevel((name,), level, 0.0 if end is None else end - now)
                for name, (level, end) in self._changes.items()
                if end is None or end > now
            )

    def reset(self) -> None:
        """Undo all changes."""
        with self._lock:
            for timer, _ in self._ends.values():
                timer.cancel()
            self._ends.clear()
            self._changes.clear()
            for name, level in self._before.items():
                logging.getLogger(name).setLevel(level)
            self._before.clear()

    def _go_back(self, name: str) -> None:
        with self._lock:
            timer, back = self._ends.get(name, (None, 0))
            # Another change may have come while this one ended.
            if timer is threading.current_thread():
                del self._ends[name], self._changes[name]
                logging.getLogger(name).setLevel(back)


#: The levels of this process.
levels = LogLevels()


def _dots(name: str) -> list[int]:
    return [place for place, letter in enumerate(name) if letter == "."]
