"""Memory that was freed after a peak of the informers, which the allocator would keep for itself."""

from __future__ import annotations

import ctypes
import logging
import sys
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
#: M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of glibc's malloc.h, in bytes: what is kept at the end of an arena, and the
#: size from which on a block is mapped by itself; buffers of the transport are smaller. Without M_MXFAST, small free
#: blocks join the end of an arena only when `malloc_trim` joins all of them, and that end stays.
_OPTIONS = {-1: 128 << 10, -3: 1 << 20, 1: 0}


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
            trim()


def keep_little() -> None:
    """Make the allocator of this process return freed memory early, instead of more and more lazily.

    By default glibc raises its limits with each large block that is freed: after a list of some megabytes it keeps tens
    of them at the end of each thread's arena, a fifth of what compressed pods take. For the rest of the process.
    """
    if (set_option := _of_allocator("mallopt")) is not None:
        for option, size in _OPTIONS.items():
            set_option(option, size)


def trim() -> None:
    """Return to the system what the allocator holds free between other blocks."""
    if (release := _of_allocator("malloc_trim")) is not None:
        release(0)


def _of_allocator(name: str) -> Callable[..., int] | None:
    """Return a function of glibc; None with other allocators, which return memory by themselves, or never."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
