"""Memory that was freed after a peak of the informers, which the allocator would keep for itself."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.clock import Clock
    from ctrlhost.informers import InformerFactory

log = logging.getLogger("ctrlhost.host")

#: Seconds between two looks, and from the first look at freed memory until it is returned: a relist may need it again.
_PERIOD, _AFTER = 60.0, 300.0
#: Bytes that are worth the system calls.
_WORTH = 16 << 20


class FreedMemory:
    """Returns freed memory to the system. For use by one thread."""

    def __init__(self, factory: Callable[[], InformerFactory | None], clock: Clock) -> None:
        """Look at the informers of a factory, which may not exist yet."""
        self._factory = factory
        self._clock = clock
        self._looked = clock.now()
        #: The most that the informers held since memory was last returned, and when they first held less.
        self._peak = 0
        #: What compression saved when memory was last returned, and the most since then.
        self._saved = self._most_saved = 0
        self._since: float | None = None

    def check(self) -> None:
        """Return what has been free for some minutes; looks once a minute, however often it is called."""
        now, factory = self._clock.now(), self._factory()
        if factory is None or now - self._looked < _PERIOD:
            return
        self._looked = now
        held, saved = factory.memory()
        self._peak = max(self._peak, held)
        # What was compressed since then was plain before.
        self._most_saved = max(self._most_saved, saved)
        if self._peak - held + self._most_saved - self._saved < _WORTH:
            self._since = None
        elif self._since is None:
            self._since = now
        elif now - self._since >= _AFTER:
            log.debug("returning memory: informers held up to %s bytes, now %s", f"{self._peak:,}", f"{held:,}")
            self._peak, self._saved, self._most_saved, self._since = held, saved, saved, None
            _trim()


def _trim() -> None:
    import ctypes

    # Of glibc; other allocators return memory by themselves, or never.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
