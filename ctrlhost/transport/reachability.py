"""Whether an API server answers. A server that hangs keeps its connections open, so only a probe shows it."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from ctrlhost.clock import SystemClock
from ctrlhost.errors import CtrlhostError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.clock import Clock
    from ctrlhost.transport.interface import Transport

log = logging.getLogger("ctrlhost.client.reachability")

QUIET = 10.0
"""Seconds without a byte from the server after which it is probed."""
LIMIT = 5.0
"""Seconds that a probe may take, and the least time from one to the next."""
FAILURES = 2
"""Probes in a row that must fail until the server counts as unreachable."""


class Reachability:
    """Probes one API server while nothing comes from it. All methods may be called from any thread."""

    def __init__(
        self, transport: Transport, *, clock: Clock | None = None, on_return: Callable[[], None] = lambda: None
    ) -> None:
        """Prepare; `on_return` is called whenever the server is reachable again, on the thread of the probes."""
        self.host = transport.host
        self._transport = transport
        self._clock = clock or SystemClock()
        self._on_return = on_return
        self._began = self._clock.now()
        self._failures = 0
        #: Why the last probe failed.
        self._why = ""
        #: When the last byte came before the server became unreachable; None while it is reachable.
        self._lost_at: float | None = None
        #: When it was reachable again for the last time.
        self._returned_at = float("-inf")
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"API server {self.host}", daemon=True)

    @property
    def up(self) -> bool:
        """Whether the server is reachable, as far as is known."""
        return self._lost_at is None

    @property
    def up_for(self) -> float:
        """Seconds since the server was reachable again, infinite if it never was unreachable; 0 while it is."""
        return self._clock.now() - self._returned_at if self.up else 0.0

    @property
    def silent_for(self) -> float:
        """Seconds since the last byte from the server, on any connection; before the first, since the beginning."""
        age = self._transport.last_byte_age
        return self._clock.now() - self._began if age is None else age

    @property
    def reason(self) -> str:
        """Why the server counts as unreachable; empty while it is reachable."""
        return "" if self.up else f"no answer for {self.silent_for:.0f}s (GET /version: {self._why})"

    def start(self) -> None:
        """Start the thread of the probes."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, which may still wait for a probe; what that finds has no effect."""
        self._stopped.set()

    def _run(self) -> None:
        pause = QUIET
        while not self._clock.wait(self._stopped, pause):
            try:
                pause = self.check()
            except Exception:  # a bug here must not end the probes; the log has the traceback
                log.exception("the probe of API server %s failed unexpectedly", self.host)
                pause = QUIET

    def check(self) -> float:
        """Probe the server unless something has come from it; return the seconds until the next check."""
        silent = self.silent_for
        if silent < QUIET:
            self._answered()
            return QUIET - silent
        began = self._clock.now()
        try:
            self._transport.probe(LIMIT)
        except CtrlhostError as error:
            if not self._stopped.is_set():
                self._failed(error.message.rpartition("/version: ")[2])
            return max(LIMIT - (self._clock.now() - began), 0.0)
        self._answered()
        return QUIET

    def _answered(self) -> None:
        if self._stopped.is_set():
            return
        self._failures = 0
        lost_at, self._lost_at = self._lost_at, None
        if lost_at is not None:
            self._returned_at = self._clock.now()
            log.info("API server %s is reachable again after %.0f s", self.host, self._clock.now() - lost_at)
            self._on_return()

    def _failed(self, why: str) -> None:
        self._why = why
        self._failures += 1
        if self._failures >= FAILURES and self.up:
            self._lost_at = self._clock.now() - self.silent_for
            log.error("API server %s is unreachable: %s", self.host, self.reason)
