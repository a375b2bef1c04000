"""The budget of a plugin's requests: a token bucket that its clients share."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from ctrlhost.errors import TransportError
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
        #: Held by the request whose turn is next, so that one that gives up has taken no token.
        self._turn = threading.Lock()
        #: When the token that was taken for the next request is available, by `time.monotonic`; None if none was taken.
        self._due: float | None = None

    def wait(self, timeout: float, what: str) -> float:
        """Wait for the turn of the request `what`, and return the rest of its `timeout`, in seconds.

        TransportError, which was not sent, if the timeout ends before.
        """
        if self._bucket is None:
            return timeout
        began = time.monotonic()
        deadline = began + timeout
        behind = self._due is not None
        wait = self._pass(deadline) if self._turn.acquire(timeout=min(timeout, threading.TIMEOUT_MAX)) else None
        waited = time.monotonic() - began
        # One that found a token, behind none that waited for one, waited for the lock or the processor at most.
        if behind or wait != 0:
            self._throttled(waited)
        if wait is None:
            message = f"{what}: no turn within {timeout:.3g} s: the plugin's `client_qps` is {self._qps:g}"
            raise TransportError(message, sent=False)
        return max(timeout - waited, 0.0)

    def _pass(self, deadline: float) -> float | None:
        """Wait for the next token until `deadline`, holding the turn; return the seconds, None if there was none."""
        try:
            now = time.monotonic()
            due = self._due
            if due is None and self._bucket is not None:
                due = now + self._bucket.when("")
            wait = max((due or now) - now, 0.0)
            late = now + wait > deadline
            self._due = due if wait or late else None
            if late:
                # The token is for the next request.
                time.sleep(max(deadline - now, 0.0))
                return None
            if wait > 0:
                time.sleep(wait)
            self._due = None
            return wait
        finally:
            self._turn.release()
