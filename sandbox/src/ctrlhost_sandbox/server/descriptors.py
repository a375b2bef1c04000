"""The one log line of a server that has no free descriptor for a connection."""

from __future__ import annotations

import errno
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

_log = logging.getLogger("ctrlhost_sandbox.server")

#: Seconds between two lines.
_PERIOD = 60.0


class DescriptorErrors:
    """The exception handler of a server's event loop.

    asyncio tries again each second, and reports the same error as often as the backlog of the listener is long.
    """

    def __init__(self) -> None:
        """Start without an error."""
        self._silent_until = 0.0

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log a lack of descriptors once a minute, and everything else as asyncio does."""
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in (errno.EMFILE, errno.ENFILE):
            loop.default_exception_handler(context)
        elif loop.time() >= self._silent_until:
            self._silent_until = loop.time() + _PERIOD
            _log.error("the sandbox cannot accept connections: %s; it tries again each second", error.strerror)
