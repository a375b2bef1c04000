"""The standard streams at the end of the process; a plugin may have closed or replaced them, or hang in one."""

from __future__ import annotations

import contextlib
import sys
import threading

#: Seconds for writing what they hold.
_TIMEOUT = 1.0


def flush() -> None:
    """Write what the standard streams hold, for at most 1 second; what cannot be written is lost."""
    thread = threading.Thread(target=_flush, name="flush", daemon=True)
    thread.start()
    thread.join(_TIMEOUT)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        # None, a closed one, or one of a plugin that raises anything.
        with contextlib.suppress(BaseException):
            stream.flush()
