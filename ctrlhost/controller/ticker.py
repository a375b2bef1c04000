"""The timer behind `Every`: it queues requests at a fixed period of the host's clock."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from ctrlhost.controller.attachment import LOW_PRIORITY, Attachment

if TYPE_CHECKING:
    from ctrlhost.controller.attachment import AttachScope
    from ctrlhost.controller.sources import Every

log = logging.getLogger("ctrlhost.controller")


class Ticker(Attachment):
    """A timer on its own thread, since `requests` may take long."""

    def __init__(self, scope: AttachScope, source: Every) -> None:
        """Prepare; the period begins with `start`."""
        super().__init__()
        self._scope = scope
        self._source = source
        self._clock = scope.plugin.services.clock
        self._requests = source.requests or scope.primary_requests
        # A round over all objects is a resync, which must not overtake real changes.
        self._priority = LOW_PRIORITY if source.requests is None and source.priority is None else source.priority
        self._stop = threading.Event()
        self._next = float("inf")
        self._thread = threading.Thread(target=self._run, name=f"{scope.controller} timer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._next = self._clock.now() + (0.0 if self._source.at_start else self._source.seconds)
        self._thread.start()

    def detach(self) -> None:
        """Stop the thread."""
        self._stop.set()

    @property
    def due(self) -> bool:
        """Whether a round is due by the clock and not queued yet."""
        return not self._stop.is_set() and self._clock.now() >= self._next

    def _run(self) -> None:
        while not self._clock.wait(self._stop, max(self._next - self._clock.now(), 0.0)):
            if not self.due:
                continue
            try:
                self._scope.queue.add_many(list(self._requests()), priority=self._priority)
            except BaseException:
                # A plugin's sys.exit would end only the timer.
                log.exception("controller %s: the requests of its timer failed", self._scope.controller)
            # Missed rounds, for example while the machine slept, are skipped.
            behind = self._clock.now() - self._next
            self._next += self._source.seconds * max(1, 1 + int(behind // self._source.seconds))
