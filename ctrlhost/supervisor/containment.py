"""Contain what the hooks of a plugin raise, or do too late, and describe it in one line."""

from __future__ import annotations

import contextvars
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ctrlhost.controller.error_text import line_of
from ctrlhost.controller.places import place_of
from ctrlhost.errors import ConfigError, PluginError, PluginLoadError, PluginNotFound
from ctrlhost.supervisor.loader import PluginImportError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ctrlhost.entries import Entries, Entry

#: Mistakes that a restart cannot mend.
_FINAL = (ConfigError, PluginLoadError, PluginNotFound)


def with_place(error: BaseException) -> str:
    """Return an error as one line, with the last place in the plugin's code that it passed through."""
    text = line_of(error)
    place = place_of(error.__traceback__)
    return f"{text} ({place})" if place else text


class Ended(BaseException):
    """The attempt to run the plugin is over: its thread returns."""


class Failure(Exception):
    """An attempt to run a plugin failed; `final` if a restart cannot help."""

    def __init__(
        self, reason: str, error: BaseException | None = None, *, final: bool = False, label: str = ""
    ) -> None:
        """Fail for `reason`, one line, because of `error`; None for something that hangs.

        `label` is the reason in metrics: by default `error`, or `deadline` for something that hangs.
        """
        super().__init__(reason)
        self.reason = reason
        self.error = error
        self.final = final
        self.label = label or ("deadline" if error is None else "error")


def is_final(error: BaseException | None) -> bool:
    """Return whether an error is a mistake that a restart cannot mend."""
    return isinstance(error, _FINAL) and not isinstance(error, PluginImportError)


def failure_of(stage: str, error: BaseException) -> Failure:
    """Describe what a plugin, or the host on its behalf, raised at a stage, with the place in the plugin's code."""
    if isinstance(error, Failure):
        return error
    if isinstance(error, (PluginError, ConfigError)):
        reason = f"{error.message} (hint: {error.hint})" if error.hint else error.message
        return Failure(reason, error, final=is_final(error))
    return Failure(f"{stage}: {with_place(error)}", error)


@contextmanager
def failing(stage: str) -> Iterator[None]:
    """Raise Failure for an error of the host's own code at a stage of the plugin."""
    try:
        yield
    except Exception as error:
        raise failure_of(stage, error) from error


class HookCalls:
    """Calls the hooks of one plugin on the calling thread, each as an entry with its deadline."""

    def __init__(self, plugin: str, entries: Entries, on_overrun: Mapping[str, Callable[[Entry], None] | None]) -> None:
        """Prepare; `on_overrun` has what to do for entries by name, and under "" for all others."""
        self._plugin = plugin
        self._entries = entries
        self._on_overrun = on_overrun

    def call(self, entry: str, function: Callable[..., Any], *args: Any) -> Any:
        """Call the plugin's code; Failure if it raises, Ended if it returned too late."""
        on_overrun = self._on_overrun.get(entry, self._on_overrun[""])
        running = self._entries.open(entry, late="dropped", on_overrun=on_overrun)
        problem: BaseException | None = None
        result = None
        try:
            with running:
                # Its own context variables: what a hook sets must not reach the next one.
                result = contextvars.copy_context().run(function, *args)
        except BaseException as error:  # noqa: BLE001 - whatever a plugin raises ends here
            problem = error
        running.close()
        if running.late and on_overrun is not None:
            raise Ended
        if problem is not None:
            # The plugin's own logger: its level decides whether its tracebacks are written.
            own = logging.getLogger(f"ctrlhost.plugin.{self._plugin}")
            own.debug("plugin %s failed at %s", self._plugin, entry, exc_info=problem.__cause__ or problem)
            raise failure_of("loading" if entry == "import" else entry, problem)
        return result
