"""The timer behind `Every`: puts requests into a controller's queue at a fixed period of the host's clock."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ctrlhost.clock import Clock
    from ctrlhost.controller.sources import Every
    from ctrlhost.request import Request
    from ctrlhost.workqueue import WorkQueue

log = logging.getLogger("ctrlhost.controller")

_LOW_PRIORITY = -100


class Ticker:
    """A thread of its own, since what `requests` does takes the time it takes."""

    def __init__(
        self,
        controller: str,
        source: Every,
        everything: Callable[[], Iterable[Request]],
        queue: WorkQueue,
        clock: Clock,
    ) -> None:
        """Prepare; `everything` gives the keys of `For`'s objects, for a source without requests of its own."""
        self._controller = controller
        self._source = source
        self._requests = source.requests or everything
        # A round over all objects is a resync: it must not overtake what really changed.
        resync = source.requests is None
        self._priority = source.priority if source.priority is not None else (_LOW_PRIORITY if resync else None)
        self._queue = queue
        self._clock = clock
        self._stop = threading.Event()
        self._next = clock.now() + (0.0 if source.at_start else source.seconds)
        self._thread = threading.Thread(target=self._run, name=f"{controller} timer", daemon=True)

    def start(self) -> None:
        """Begin to tick."""
        self._thread.start()

    def stop(self) -> None:
        """Tick no more."""
        self._stop.set()

    @property
    def due(self) -> bool:
        """Whether a round is owed by the clock and has not been queued yet."""
        return not self._stop.is_set() and self._clock.now() >= self._next

    def _run(self) -> None:
        while not self._clock.wait(self._stop, max(self._next - self._clock.now(), 0.0)):
            if not self.due:
                continue
            try:
                self._queue.add_many(list(self._requests()), priority=self._priority)
            except BaseException:
                # A plugin's sys.exit would end the timer and nothing else.
                log.exception("controller %s: the requests of its timer could not be made", self._controller)
            # Rounds that were missed, while the machine slept say, are not made up for.
            behind = self._clock.now() - self._next
            self._next += self._source.seconds * max(1, 1 + int(behind // self._source.seconds))
