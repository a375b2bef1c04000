"""The timer behind `Every`: it queues requests at a fixed period of the host's clock, each with some jitter."""

from __future__ import annotations

import logging
import math
import threading
from typing import TYPE_CHECKING

from ctrlhost.controller.attachment import LOW_PRIORITY, Attachment
from ctrlhost.controller.error_text import line_of
from ctrlhost.controller.retries import choose_jitter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ctrlhost.controller.attachment import AttachScope
    from ctrlhost.request import Request

log = logging.getLogger("ctrlhost.controller")

#: The largest delay of a request in its round, as a part of the period.
_JITTER = 0.1


class Ticker(Attachment):
    """A timer on its own thread, since `requests` may take long."""

    def __init__(
        self,
        scope: AttachScope,
        seconds: float,
        requests: Callable[[], Iterable[Request]] | None,
        *,
        priority: int | None,
        at_start: bool,
    ) -> None:
        """Prepare; the period begins with `start`. Without `requests` a round enqueues all objects of `For`'s kind."""
        super().__init__()
        self._scope = scope
        self._seconds = seconds
        self._at_start = at_start
        services = scope.plugin.services
        self._clock = services.clock
        self._jitter = services.jitter or choose_jitter(services.clock)
        self._requests = requests or scope.primary_requests
        # A round over all objects is a resync, which must not overtake real changes.
        self._priority = LOW_PRIORITY if requests is None and priority is None else priority
        self._stop = threading.Event()
        self._next = math.inf
        self._error = ""
        self._thread = threading.Thread(target=self._run, name=f"{scope.controller} timer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._next = self._clock.now() + (0.0 if self._at_start else self._seconds)
        self._thread.start()

    def detach(self) -> None:
        """Stop the thread."""
        self._stop.set()

    @property
    def due_at(self) -> float:
        """When the next round is due by the clock; past until it is queued."""
        return math.inf if self._stop.is_set() else self._next

    @property
    def error(self) -> str:
        """The error of the last round in one line; empty without one."""
        return self._error

    def _called(self) -> list[Request]:
        """Return the requests of a round. While this hangs there are no rounds."""
        entry = self._scope.plugin.entries.open("requests", controller=self._scope.controller)
        try:
            with entry:
                return list(self._requests())
        finally:
            entry.close()

    def _add(self, requests: list[Request]) -> None:
        """Queue the requests of a round; those of the start at once, the others within the jitter."""
        spread, queue = 0.0 if self._at_start else self._seconds * _JITTER, self._scope.queue
        delays = [spread * self._jitter() for _ in requests]
        if not any(delays):
            queue.add_many(requests, priority=self._priority)
            return
        for request, delay in zip(requests, delays, strict=True):
            queue.add_after(request, delay, priority=self._priority)

    def _run(self) -> None:
        # Not `wait`: a manual clock may advance before the seconds that are left are passed to it.
        while not self._clock.wait_until(self._stop, self._next):
            if self._clock.now() < self._next:
                continue
            try:
                self._add(self._called())
                self._error = ""
            except BaseException as error:
                self._error = line_of(error)
                # A plugin's sys.exit would end only the timer.
                log.exception("controller %s: the requests of its timer failed", self._scope.controller)
            self._at_start = False
            # Rounds missed, for example while the machine was suspended, are skipped.
            behind = self._clock.now() - self._next
            self._next += self._seconds * max(1, 1 + int(behind // self._seconds))
