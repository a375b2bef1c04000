"""Confine the exceptions of a plugin to that plugin, and describe them in one line."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ctrlhost.controller.places import place_of
from ctrlhost.errors import ConfigError, PluginError, PluginNotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

log = logging.getLogger("ctrlhost.host")


def with_place(error: BaseException) -> str:
    """Return an error as one line, with the last place in the plugin's code that it passed through."""
    text = f"{type(error).__name__}: {' '.join(str(error).split())}".rstrip(": ")
    place = place_of(error.__traceback__)
    return f"{text} ({place})" if place else text


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
