"""What a reconcile came to, turned into calls of the queue, counts and log lines."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ctrlhost.errors import ApiError, Conflict, CtrlhostError, RetryAfter, Stale, TerminalError
from ctrlhost.result import Result

if TYPE_CHECKING:
    from ctrlhost.reconcile_metrics import WorkerCounts
    from ctrlhost.request import Request
    from ctrlhost.workqueue import WorkQueue

log = logging.getLogger("ctrlhost.controller")


class Outcomes:
    """The rules of one controller, shared by its workers. Every method is called while the key is being processed.

    So a key that is queued again here is handed out only when its worker is done with it.
    """

    def __init__(self, controller: str, queue: WorkQueue, timeout: float | None) -> None:
        """Rule over the keys of this queue."""
        self.controller = controller
        self.timeout = timeout
        #: Keys whose last run failed, so whose limiter has something to forget. A key has one worker at a time.
        self.failing: set[Request] = set()
        self.last_error: str | None = None
        self._queue = queue

    def succeeded(self, key: Request) -> None:
        """Forget the failures of a key that succeeded."""
        self.failing.discard(key)
        self._queue.forget(key)

    def finished(self, key: Request, priority: int, result: Any, counts: WorkerCounts) -> None:
        """Do what the reconciler asked for; anything but a Result is the plugin's mistake, and counts as a failure.

        `priority` is what the key was handed out with, which its next run keeps.
        """
        if not isinstance(result, Result):
            message = f"the reconciler returned {type(result).__name__}; it returns None or ctrlhost.Result"
            self.failed(key, priority, TypeError(message), counts)
            return
        # The back-off is forgotten before the delay is asked for, or a steady loop would creep to the longest delay.
        self.succeeded(key)
        if result.requeue_after is not None and result.requeue_after > 0:
            counts.requeue_after += 1
            wanted = priority if result.priority is None else result.priority
            self._queue.add_after(key, result.requeue_after, priority=wanted)

    def failed(self, key: Request, priority: int, error: BaseException, counts: WorkerCounts) -> None:
        """Retry as the error asks, count it, and say so in the log."""
        if isinstance(error, RetryAfter):
            self.succeeded(key)
            counts.requeue_after += 1
            self._queue.add_after(key, max(error.seconds, 0.0), priority=priority)
            return
        counts.errors += 1
        self.last_error = f"{type(error).__name__}: {error}"
        if _is_terminal(error):
            counts.terminal += 1
            # Upstream keeps the back-off here, and so leaks an entry per object that never succeeds.
            self.succeeded(key)
            log.error("reconcile failed and is not retried until the object changes: %s", error)
            return
        wait = error.retry_after if isinstance(error, ApiError) else None
        if not isinstance(error, Exception):
            counts.panics += 1
            log.error("panic in the reconciler: %s [recovered]", self.last_error, exc_info=error)
        elif isinstance(error, (Conflict, Stale)) or wait:
            log.info("reconcile is retried: %s", error)
        else:
            # An error that ctrlhost raised says all there is to know; of any other the plugin's author needs the place.
            log.error(
                "reconcile failed: %s", self.last_error, exc_info=None if isinstance(error, CtrlhostError) else error
            )
        self.failing.add(key)
        if wait and wait > 0:
            self._queue.add_after(key, wait, priority=priority)
        else:
            self._queue.add_rate_limited(key, priority=priority)

    def overran(self, counts: WorkerCounts) -> None:
        """Count a run that took longer than the controller's timeout, whatever it came to."""
        counts.timeouts += 1


def _is_terminal(error: BaseException) -> bool:
    """Say whether a TerminalError is anywhere in the chain of causes."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, TerminalError):
            return True
        seen.add(id(cause))
        cause = cause.__cause__
    return False
