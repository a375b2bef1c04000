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
#: Shorter waits, in seconds, are those for the lock.
_NOTICEABLE = 0.001


class Budget:
    """Lets `qps` requests a second pass, and twice as many at once. Callable from any thread."""

    def __init__(self, qps: float, throttled: Callable[[float], None] = lambda _seconds: None) -> None:
        """Start with a full burst; 0 is no bound. `throttled` is called with the seconds that a request waited."""
        self._qps = qps
        self._bucket = BucketRateLimiter(qps, int(min(max(qps * _BURST, 1.0), _MAX_BURST))) if qps else None
        self._throttled = throttled
        #: Held by the request whose turn is next, so that one that gives up has taken no token.
        self._turn = threading.Lock()
        #: When the next token is available, by `time.monotonic`; None if none was taken for the next request.
        self._due: float | None = None

    def wait(self, timeout: float, what: str) -> float:
        """Wait for the turn of the request `what`, and return the rest of its `timeout`, in seconds.

        TransportError, which was not sent, if the timeout ends before.
        """
        if self._bucket is None:
            return timeout
        began = time.monotonic()
        deadline = began + timeout
        passed = self._turn.acquire(timeout=min(timeout, threading.TIMEOUT_MAX)) and self._pass(deadline)
        waited = time.monotonic() - began
        if waited >= _NOTICEABLE:
            self._throttled(waited)
        if not passed:
            message = f"{what}: no turn within {timeout:.3g} s: the plugin's `client_qps` is {self._qps:g}"
            raise TransportError(message, sent=False)
        return max(timeout - waited, 0.0)

    def _pass(self, deadline: float) -> bool:
        """Wait for the next token until `deadline`, holding the turn; return whether there was one."""
        try:
            now = time.monotonic()
            if self._due is None and self._bucket is not None:
                self._due = now + self._bucket.when("")
            wait = (self._due or now) - now
            if now + wait > deadline:
                # The token is for the next request.
                time.sleep(max(deadline - now, 0.0))
                return False
            if wait > 0:
                time.sleep(wait)
            self._due = None
            return True
        finally:
            self._turn.release()
