"""Keeping what a plugin raises to that plugin, and saying it in one line."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import pluggy

from ctrlhost.errors import ConfigError, PluginError, PluginNotFound

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger("ctrlhost.host")

#: Frames in these folders are between the host and the plugin, and tell its author nothing.
_BETWEEN = (str(Path(__file__).parents[1]), str(Path(pluggy.__file__).parent))


def with_place(error: BaseException) -> str:
    """Give an error as one line with the last place in the plugin's code that it came through."""
    # "<": code that was made as text, as the methods of dataclasses are.
    frames = [one for one in traceback.extract_tb(error.__traceback__) if not one.filename.startswith((*_BETWEEN, "<"))]
    text = f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": ")
    return f"{text} ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else text


class Contained:
    """A block in which what a plugin raises is reported and ends there; what the operator got wrong goes on."""

    def __init__(
        self, plugin: str, stage: str, fail: Callable[[str, BaseException], None], *, everything: bool = False
    ) -> None:
        """Report to `fail`, with one line that says what happened at `stage`.

        With `everything` what the operator got wrong is reported, too: nobody is there to hear of it any more.
        """
        self._plugin = plugin
        self._stage = stage
        self._fail = fail
        self._everything = everything

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> bool:
        """Swallow an error of the plugin."""
        # Of what is no Exception, sys.exit is the plugin's; Ctrl-C and signals are the operator's.
        if not isinstance(error, (Exception, SystemExit)):
            return False
        if isinstance(error, (ConfigError, PluginNotFound)) and not self._everything:
            return False
        if isinstance(error, (PluginError, ConfigError)):
            reason = f"{error.message} (hint: {error.hint})" if error.hint else error.message
        else:
            reason = f"{self._stage}: {with_place(error)}"
        log.debug("plugin %s failed at %s", self._plugin, self._stage, exc_info=error)
        self._fail(reason, error)
        return True
