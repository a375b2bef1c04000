"""Log lines of a dry run, of which each is written once."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict

log = logging.getLogger("ctrlhost.dry_run")

#: The lines that are remembered.
_MAX_LINES = 16384


class LoggedOnce:
    """Logs lines, each once. Methods may be called from any thread."""

    def __init__(self) -> None:
        """Start without lines."""
        self._lock = threading.Lock()
        self._seen: OrderedDict[int, None] = OrderedDict()

    def info(self, text: str, about: str = "") -> None:
        """Log a text, unless it was logged for the same `about` before, and not very long ago."""
        key = hash((text, about))
        with self._lock:
            known = key in self._seen
            self._seen[key] = None
            self._seen.move_to_end(key)
            if len(self._seen) > _MAX_LINES:
                self._seen.popitem(last=False)
        if not known:
            log.info("%s", text)
