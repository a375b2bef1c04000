"""The timer behind `Every`: it queues requests at a fixed period of the host's clock."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from ctrlhost.controller.attachment import Attachment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ctrlhost.clock import Clock
    from ctrlhost.request import Request
    from ctrlhost.workqueue import WorkQueue

log = logging.getLogger("ctrlhost.controller")


class Ticker(Attachment):
    """A timer on its own thread, since `requests` may take long."""

    def __init__(
        self,
        controller: str,
        requests: Callable[[], Iterable[Request]],
        queue: WorkQueue,
        clock: Clock,
        *,
        seconds: float,
        at_start: bool,
        priority: int | None,
    ) -> None:
        """Prepare; the period begins with `start`."""
        self._controller = controller
        self._requests = requests
        self._queue = queue
        self._clock = clock
        self._seconds = seconds
        self._delay = 0.0 if at_start else seconds
        self._priority = priority
        self._stop = threading.Event()
        self._next = float("inf")
        self._thread = threading.Thread(target=self._run, name=f"{controller} timer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._next = self._clock.now() + self._delay
        self._thread.start()

    def detach(self) -> None:
        """Stop the thread."""
        self._stop.set()

    release = detach

    @property
    def due(self) -> bool:
        """Whether a round is due by the clock and not queued yet."""
        return not self._stop.is_set() and self._clock.now() >= self._next

    def _run(self) -> None:
        while not self._clock.wait(self._stop, max(self._next - self._clock.now(), 0.0)):
            if not self.due:
                continue
            try:
                self._queue.add_many(list(self._requests()), priority=self._priority)
            except BaseException:
                # A plugin's sys.exit would end only the timer.
                log.exception("controller %s: the requests of its timer failed", self._controller)
            # Missed rounds, for example while the machine slept, are skipped.
            behind = self._clock.now() - self._next
            self._next += self._seconds * max(1, 1 + int(behind // self._seconds))
