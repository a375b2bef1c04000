"""The budget of a plugin's requests: a token bucket that its clients share."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from ctrlhost.errors import TransportError
from ctrlhost.transport.steps import Pause, Steps
from ctrlhost.workqueue import BucketRateLimiter

if TYPE_CHECKING:
    from collections.abc import Callable

#: The burst of a budget, in seconds of its rate, and the largest one.
_BURST, _MAX_BURST = 2, 2**32 - 1


class Budget:
    """Lets `qps` requests a second pass, and twice as many at once. Callable from any thread."""

    def __init__(self, qps: float, throttled: Callable[[float], None] = lambda _seconds: None) -> None:
        """Start with a full burst; 0 is no bound. `throttled` is called with the seconds that a request waited."""
        self._qps = qps
        self._bucket = BucketRateLimiter(qps, int(min(max(qps * _BURST, 1.0), _MAX_BURST))) if qps else None
        self._throttled = throttled
        #: Held while a request takes a token.
        self._turn = threading.Lock()
        #: When a token is available that a request took and could not wait for, by `time.monotonic`; None if none is.
        self._due: float | None = None

    def turn(self, timeout: float, what: str) -> Steps[float]:
        """Wait for the turn of the request `what`, and return the rest of its `timeout`, in seconds.

        TransportError, which was not sent, if the timeout ends before.
        """
        wait, rest = self._reserve(timeout)
        if wait > 0:
            yield Pause(wait)
        if rest is None:
            message = f"{what}: no turn within {timeout:.3g} s: the plugin's `client_qps` is {self._qps:g}"
            raise TransportError(message, sent=False)
        return rest

    def _reserve(self, timeout: float) -> tuple[float, float | None]:
        """Take a token; return the seconds until it is available, and the rest of the timeout then.

        If that is too late, keep it for the next request, and return the timeout and None.
        """
        if self._bucket is None:
            return 0.0, timeout
        began = time.monotonic()
        with self._turn:
            now = time.monotonic()
            kept, self._due = self._due, None
            due = kept if kept is not None else now + self._bucket.when("")
            wait = max(due - now, 0.0)
            late = due > began + timeout
            if late:
                self._due = due
        waited = now - began
        if late:
            wait = max(timeout - waited, 0.0)
        # A wait for the lock alone is none for the budget.
        if wait > 0 or late:
            self._throttled(waited + wait)
        return wait, None if late else max(timeout - waited - wait, 0.0)
