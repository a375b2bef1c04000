"""The levels of single loggers: those of the setting `log_levels`, and changes that end by themselves."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from ctrlhost.config.types import canonical
from ctrlhost.errors import ConfigError
from ctrlhost.suggestions import suggest
from ctrlhost.supervisor.loader import installed_plugins

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ctrlhost.supervisor.channel import LogLevel

_OF_PLUGIN = "ctrlhost.plugin."
#: The logger of the lines about calls of the admin API, whose level nobody changes.
_FIXED = "ctrlhost.admin"
#: The host's own loggers; what is before a dot may be named, too.
LOGGERS = (
    "ctrlhost.audit",
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
    "ctrlhost.otel",
    "ctrlhost.plugin",
    "ctrlhost_sandbox",
    "ctrlhost.server",
    "ctrlhost.shards",
    "ctrlhost.task",
)


def find_loggers(name: str, plugins: Iterable[str]) -> tuple[str, ...]:
    """Return the loggers that `name` means, one of `plugins` or a logger; ConfigError for an unknown or fixed one.

    A plugin's are those of its context and of its package. Loggers of other libraries are known once they exist.
    """
    if name == _FIXED:
        raise ConfigError(f"the level of `{_FIXED}` is fixed", hint="its lines say who has changed the host")
    installed, named = installed_plugins(), sorted(set(plugins))
    # A plugin that is a file, or a module that was passed to the host, is a module of its name.
    packages = {
        plugin: {entry.target.partition(":")[0].partition(".")[0] for entry in installed.get(plugin, ())}
        or {canonical(plugin)}
        for plugin in named
    }
    # In the environment, `-` is `_`.
    for package in packages:
        if canonical(package) == canonical(name):
            return (f"{_OF_PLUGIN}{package}", *sorted(packages[package]))
    known = {name[:end] for name in LOGGERS for end in (*_dots(name), len(name))}
    known |= {f"{_OF_PLUGIN}{plugin}" for plugin in named}.union(*packages.values())
    outer = {name[:end] for end in _dots(name)} & (known - {"ctrlhost", "ctrlhost.plugin"})
    if name in known or outer or isinstance(logging.root.manager.loggerDict.get(name), logging.Logger):
        return (name,)
    raise ConfigError(f"no plugin and no logger `{name}`", hint=suggest(name, known | set(named)))


def check(levels: Mapping[str, str], plugins: Iterable[str]) -> None:
    """Raise ConfigError for the first name of the setting `log_levels` that is neither a plugin nor a logger."""
    named = list(plugins)
    for name in levels:
        try:
            find_loggers(name, named)
        except ConfigError as error:
            raise ConfigError(f"host.log_levels: {error.message}", hint=error.hint) from None


class _Change(NamedTuple):
    """A level, and the time by time.monotonic at which it ends, if it does."""

    level: str
    end: float | None


class LogLevels:
    """The levels of single loggers of this process. Methods may be called from any thread."""

    def __init__(self) -> None:
        """Start without changes."""
        self._lock = threading.Lock()
        #: The levels before all changes.
        self._before: dict[str, int] = {}
        #: The changes of each logger, of which the last one counts: each ends before those in front of it.
        self._changes: dict[str, list[_Change]] = {}
        #: The ends of the last changes.
        self._timers: dict[str, threading.Timer] = {}

    def set(self, loggers: Iterable[str], level: str, seconds: float = 0.0) -> None:
        """Set the level of these loggers, for some seconds, or with 0 until `reset`.

        Then the level is that of an earlier change that has not ended, if there is one.
        """
        with self._lock:
            end = time.monotonic() + seconds if seconds else None
            for name in loggers:
                self._before.setdefault(name, logging.getLogger(name).level)
                # The others end no later than this one.
                left = [
                    change for change in self._changes.get(name, ()) if end and (change.end is None or change.end > end)
                ]
                self._changes[name] = [*left, _Change(level, end)]
                self._apply(name)

    def changes(self) -> tuple[LogLevel, ...]:
        """Return the changes that have not ended, for another process, which sets them in this order."""
        # Not for a host without such processes, whose start it would delay.
        from ctrlhost.supervisor.channel import LogLevel

        with self._lock:
            now = time.monotonic()
            return tuple(
                LogLevel((name,), level, 0.0 if end is None else end - now)
                for name, changes in self._changes.items()
                for level, end in changes
                if end is None or end > now
            )

    def reset(self) -> None:
        """Undo all changes."""
        with self._lock:
            self._changes.clear()
            for name in list(self._before):
                self._apply(name)
            self._before.clear()

    def _apply(self, name: str) -> None:
        """Set a logger to the level of its last change, until that ends; the caller has the lock."""
        if (timer := self._timers.pop(name, None)) is not None:
            timer.cancel()
        if not (changes := self._changes.get(name)):
            logging.getLogger(name).setLevel(self._before[name])
            return
        level, end = changes[-1]
        logging.getLogger(name).setLevel(logging.getLevelNamesMapping()[level.upper()])
        if end is not None:
            timer = threading.Timer(max(0.0, end - time.monotonic()), self._end, (name,))
            timer.daemon = True
            self._timers[name] = timer
            timer.start()

    def _end(self, name: str) -> None:
        with self._lock:
            # Another change may have come while this one ended.
            if self._timers.get(name) is not threading.current_thread():
                return
            self._changes[name].pop()
            if not self._changes[name]:
                del self._changes[name]
            self._apply(name)


#: The levels of this process.
levels = LogLevels()


def _dots(name: str) -> list[int]:
    return [place for place, letter in enumerate(name) if letter == "."]
