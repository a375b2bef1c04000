"""What a reconcile came to, turned into calls of the queue, counts and log lines."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ctrlhost.errors import ApiError, Conflict, CtrlhostError, RetryAfter, Stale, TerminalError
from ctrlhost.request import Result

if TYPE_CHECKING:
    from ctrlhost.controller.metrics import WorkerCounts
    from ctrlhost.request import Request
    from ctrlhost.workqueue import WorkQueue

log = logging.getLogger("ctrlhost.controller")

#: The delay of a retry whose rate limiter raised, in seconds.
_WITHOUT_LIMITER = 1.0
#: The shortest delay that a reconciler can ask for, in seconds, so that one that asks for less does not spin.
_SOONEST = 0.005


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
        try:
            self._queue.forget(key)
        except Exception:
            # A limiter of the plugin's own failed; the run was what it was.
            log.exception("the rate limiter failed to forget a key")

    def finished(self, key: Request, priority: int, result: Any, counts: WorkerCounts) -> None:
        """Do what the reconciler asked for; anything but a Result is the plugin's mistake, and counts as a failure.

        `priority` is what the key was handed out with, which its next run keeps.
        """
        if not isinstance(result, Result):
            message = f"the reconciler returned {type(result).__name__}; it returns None or ctrlhost.Result"
            self.failed(key, priority, TypeError(message), counts)
            return
        try:
            if result.requeue_after is not None and result.requeue_after > 0:
                wanted = priority if result.priority is None else result.priority
                self._run_after(key, result.requeue_after, wanted, counts)
            else:
                self.succeeded(key)
        except Exception as error:  # noqa: BLE001 - a delay or priority that makes no sense is the plugin's mistake
            self.failed(key, priority, error, counts)

    def failed(self, key: Request, priority: int, error: BaseException, counts: WorkerCounts) -> None:
        """Retry as the error asks, count it, and say so in the log."""
        if isinstance(error, RetryAfter):
            try:
                self._run_after(key, error.seconds, priority, counts)
            except Exception as mistake:  # noqa: BLE001 - seconds that are no number
                error = mistake
            else:
                return
        counts.errors += 1
        self.last_error = _told(error)
        if _is_terminal(error):
            counts.terminal += 1
            # Upstream keeps the back-off here, and so leaks an entry per object that never succeeds.
            self.succeeded(key)
            log.error("reconcile failed and is not retried until the object changes: %s", self.last_error)
            return
        wait = error.retry_after if isinstance(error, ApiError) else None
        if not isinstance(error, Exception):
            counts.panics += 1
            log.error("panic in the reconciler: %s [recovered]", self.last_error, exc_info=error)
        elif isinstance(error, (Conflict, Stale)) or wait:
            log.info("reconcile is retried: %s", self.last_error)
        else:
            # An error that ctrlhost raised says all there is to know; of any other the plugin's author needs the place.
            log.error(
                "reconcile failed: %s", self.last_error, exc_info=None if isinstance(error, CtrlhostError) else error
            )
        self.failing.add(key)
        if wait and wait > 0:
            self._queue.add_after(key, wait, priority=priority)
            return
        try:
            self._queue.add_rate_limited(key, priority=priority)
        except Exception:
            # A limiter of the plugin's own failed; the key must not be lost for that.
            log.exception("the rate limiter failed; the key is retried after %g s", _WITHOUT_LIMITER)
            self._queue.add_after(key, _WITHOUT_LIMITER, priority=priority)

    def _run_after(self, key: Request, seconds: float, priority: int, counts: WorkerCounts) -> None:
        """Have the key run again after a delay that it asked for; its back-off starts afresh, whatever came before."""
        self._queue.add_after(key, max(seconds, _SOONEST), priority=priority)
        self.succeeded(key)
        counts.requeue_after += 1

    def overran(self, counts: WorkerCounts) -> None:
        """Count a run that took longer than the controller's timeout, whatever it came to."""
        counts.timeouts += 1


def _told(error: BaseException) -> str:
    """Give an error as one line; an exception may fail even at that."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - its own __str__ raised
        return type(error).__name__


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
