"""Confine the exceptions of a plugin to that plugin, and describe them in one line."""

from __future__ import annotations

import logging
import os
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pluggy

from ctrlhost.errors import ConfigError, PluginError, PluginNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

log = logging.getLogger("ctrlhost.host")

#: Frames in the folders of ctrlhost and pluggy do not help the author of the plugin.
_OWN_FOLDERS = tuple(f"{folder}{os.sep}" for folder in (Path(__file__).parents[1], Path(pluggy.__file__).parent))


def with_place(error: BaseException) -> str:
    """Return an error as one line, with the last place in the plugin's code that it passed through."""
    # "<": generated code, such as the methods of dataclasses.
    hidden = (*_OWN_FOLDERS, "<")
    frames = [one for one in traceback.extract_tb(error.__traceback__) if not one.filename.startswith(hidden)]
    text = f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": ")
    return f"{text} ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else text


@contextmanager
def contained(
    plugin: str, stage: str, fail: Callable[[str, BaseException], None], *, everything: bool = False
) -> Iterator[None]:
    """Pass exceptions of a plugin in the block to `fail`, with one line that names the `stage`, and end the block.

    Mistakes of the operator are raised, or with `everything`, for threads without a caller, also passed to `fail`.
    """
    try:
        yield
    except (Exception, SystemExit) as error:  # Ctrl-C and signals come from the operator.
        if isinstance(error, (ConfigError, PluginNotFound)) and not everything:
            raise
        if isinstance(error, (PluginError, ConfigError)):
            reason = f"{error.message} (hint: {error.hint})" if error.hint else error.message
        else:
            reason = f"{stage}: {with_place(error)}"
        log.debug("plugin %s failed at %s", plugin, stage, exc_info=error)
        fail(reason, error)
