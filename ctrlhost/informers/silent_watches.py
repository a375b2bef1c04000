"""Watches that stay silent after the API server has returned are opened again where they ended."""

from __future__ import annotations

import logging
import random
import threading
from operator import itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ctrlhost.clock import Clock
    from ctrlhost.informers.informer import Informer
    from ctrlhost.informers.namespace_informer import NamespaceInformer

log = logging.getLogger("ctrlhost.informers.silent_watches")

PATIENCE = 10.0
"""Seconds in which a watch may send something after the server has returned."""
SPREAD = 10.0
"""Seconds over which the watches that do not are reopened."""


class SilentWatches:
    """Reopens silent watches. A server that goes on sends what has changed, so none is closed before.

    All methods may be called from any thread.
    """

    def __init__(
        self,
        informers: Callable[[], Iterable[Informer]],
        clock: Clock,
        reachable: Callable[[], bool],
        rng: random.Random | None = None,
    ) -> None:
        """Reopen watches of `informers`, on their clock, while the server is `reachable`."""
        self._informers = informers
        self._clock = clock
        self._reachable = reachable
        self._rng = rng or random.Random()  # noqa: S311 - spreads load, protects nothing
        self._lock = threading.Lock()
        #: Ends the thread of the last return.
        self._ended = threading.Event()
        self._stopped = False

    def returned(self) -> None:
        """Wait for signs of life of each watch from now on, on a thread of its own; nothing after `stop`."""
        ended = threading.Event()
        with self._lock:
            if self._stopped:
                return
            self._ended.set()
            self._ended = ended
        arguments = (ended, self._clock.now())
        threading.Thread(target=self._run, args=arguments, name="silent watches", daemon=True).start()

    def stop(self) -> None:
        """End the thread, if there is one; none is started any more."""
        with self._lock:
            self._stopped = True
            self._ended.set()

    def _run(self, ended: threading.Event, since: float) -> None:
        if self._clock.wait_until(ended, since + PATIENCE):
            return
        parts = {part for informer in self._informers() for part in informer.parts if _silent(part, since)}
        moments = sorted(
            ((since + PATIENCE + self._rng.uniform(0.0, SPREAD), part) for part in parts), key=itemgetter(0)
        )
        for moment, part in moments:
            if self._clock.wait_until(ended, moment) or not self._reachable():
                return
            if _silent(part, since):
                log.debug("reopening the watch of %s: silent since the API server returned", part.resource)
                part.reflector.reopen()


def _silent(part: NamespaceInformer, since: float) -> bool:
    """Return whether a watch that was open at a moment has sent nothing since."""
    status = part.reflector.status
    if status.state != "watching" or status.since is None or status.since > since:
        return False
    return status.last_byte_at is None or status.last_byte_at <= since
