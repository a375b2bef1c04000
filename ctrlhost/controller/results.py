"""Turn the result or error of a reconcile into calls of the queue, counts and log lines."""

from __future__ import annotations

import inspect
import logging
import math
from typing import TYPE_CHECKING, Any

from ctrlhost.controller.error_groups import decisive
from ctrlhost.controller.error_text import line_of
from ctrlhost.controller.places import place_of
from ctrlhost.coordination.writes import causes, refused
from ctrlhost.errors import ApiError, Conflict, CtrlhostError, NotOwned, RetryAfter, Stale, TerminalError
from ctrlhost.request import Result

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.controller.history import History, RunResult
    from ctrlhost.controller.metrics import WorkerCounts
    from ctrlhost.coordination.writes import Permit
    from ctrlhost.request import Request
    from ctrlhost.workqueue import WorkQueue

log = logging.getLogger("ctrlhost.controller")

#: The delay of a retry whose rate limiter raised, in seconds.
_WITHOUT_LIMITER = 1.0
#: The delay of the next run after NotOwned, in seconds.
_NOT_OWNED = 60.0
#: The delay of the next run after InvalidStatus, in seconds.
_INVALID_STATUS = 60.0
#: The shortest delay that a reconciler can ask for, in seconds; shorter ones would cause a busy loop.
_MIN_DELAY = 0.005


class RunAgain(Exception):
    """Raised by the host itself to run the key again at once, such as after another writer was faster.

    It is no failure, and changes nothing for the back-off of the key.
    """


class InvalidStatus(TerminalError):
    """Raised by the host itself for an object whose status does not fit its model.

    A change of the status wakes no controller by default, so the key runs again after a while to see whether it fits.
    """


class Results:
    """Handles the results of one controller; shared by its workers. Methods are called while the key is processed.

    The queue therefore hands out a key that is requeued here only after its worker is done with it.
    """

    def __init__(
        self,
        controller: str,
        queue: WorkQueue,
        timeout: float | None,
        history: History,
        successes: Callable[[], int] = int,
    ) -> None:
        """Prepare; `timeout` is the controller's, in seconds. `successes` returns the number of runs without error."""
        self.controller = controller
        self.timeout = timeout
        #: Keys whose last run failed, so that the rate limiter must forget them. A key has one worker at a time.
        self.failing = history.failing
        self.last_error: str | None = None
        self._queue = queue
        self._history = history
        self._successes = successes
        #: The failures since `_succeeded` runs had succeeded, and the last of them.
        self._failures, self._succeeded = 0, 0
        self._last_failure = ""

    def failing_in_a_row(self) -> tuple[int, str]:
        """Return how many runs have failed since the last success, and the error of the last one with its place."""
        in_a_row = self._failures if self._successes() == self._succeeded else 0
        return in_a_row, self._last_failure

    def succeeded(self, key: Request) -> None:
        """Forget the failures of a key."""
        self._history.succeeded(key)
        try:
            self._queue.forget(key)
        except Exception:
            # The plugin's own rate limiter failed; the result of the run stands.
            log.exception("controller %s: the rate limiter failed to forget %s", self.controller, key)

    def finished(self, key: Request, priority: int, result: Any, counts: WorkerCounts) -> tuple[RunResult, str]:
        """Apply the Result of a run, and return how the run ended; any other value counts as a failure.

        `priority` is that with which the key was handed out; its next run keeps it.
        """
        if inspect.iscoroutine(result):
            # Else Python warns about it later, at another place.
            result.close()
            message = "the coroutine that the reconciler returned was not awaited"
            return self.failed(key, priority, TypeError(f"{message}: make the reconciler an `async def`"), counts)
        if not isinstance(result, Result):
            message = f"the reconciler returned {type(result).__name__}; it must return None or ctrlhost.Result"
            return self.failed(key, priority, TypeError(message), counts)
        try:
            # Not `> 0`: the queue refuses what is not a number.
            if result.requeue_after is not None and not result.requeue_after <= 0:
                wanted = priority if result.priority is None else result.priority
                return self._run_after(key, result.requeue_after, wanted, counts)
            counts.successes += 1
            self.succeeded(key)
        except Exception as error:  # noqa: BLE001 - an invalid delay or priority is the plugin's mistake
            return self.failed(key, priority, error, counts)
        return "success", ""

    def failed(
        self, key: Request, priority: int, error: BaseException, counts: WorkerCounts, permit: Permit | None = None
    ) -> tuple[RunResult, str]:
        """Count and log the error, retry the key as the error requires, and return how the run ended.

        A write that was refused because the term of the run's `permit` is over is no error: the key waits for the next
        term. Of an exception group, one error decides.
        """
        error = decisive(error)
        if refused(error, permit):
            log.info("the reconcile ended with its term: %s", _described(error))
            self._queue.add(key, priority=priority)
            return "next_term", _described(error)
        if isinstance(error, NotOwned):
            log.info("the reconcile did not write an object that it does not own: %s", _described(error))
            return self._run_after(key, _NOT_OWNED, priority, counts)
        if isinstance(error, RunAgain):
            log.info("reconciling again: %s", error)
            self._queue.add(key, priority=priority)
            counts.requeue += 1
            return "requeue", ""
        if isinstance(error, RetryAfter):
            try:
                return self._run_after(key, error.seconds, priority, counts)
            except Exception as mistake:  # noqa: BLE001 - the seconds are not a number
                error = mistake
        counts.errors += 1
        self.last_error = _described(error)
        fields = self._note_failure(key, error)
        if _is_terminal(error):
            counts.terminal += 1
            # Upstream keeps the back-off here, which leaks an entry per object that never succeeds.
            self.succeeded(key)
            self._remember(key, fields, terminal=True)
            if isinstance(error, InvalidStatus):
                self._queue.add_after(key, _INVALID_STATUS, priority=priority)
            log.error("reconcile failed, not retrying until the object changes: %s", self.last_error, extra=fields)
            return "terminal", self.last_error
        wait = _wanted_delay(error)
        if not isinstance(error, Exception):
            counts.panics += 1
            log.error("panic in the reconciler: %s [recovered]", self.last_error, exc_info=error, extra=fields)
        elif isinstance(error, (Conflict, Stale)) or wait:
            log.info("retrying reconcile: %s", self.last_error, extra=fields)
        else:
            # The message of ctrlhost's own errors is enough; for others the plugin's author needs the traceback.
            trace = None if isinstance(error, CtrlhostError) else error
            log.error("reconcile failed: %s", self.last_error, exc_info=trace, extra=fields)
        self._remember(key, fields, terminal=False)
        if wait:
            self._queue.add_after(key, wait, priority=priority)
            return "error", self.last_error
        try:
            self._queue.add_rate_limited(key, priority=priority)
        except Exception:
            # The plugin's own rate limiter failed; the key must not be lost.
            log.exception("the rate limiter failed; retrying the key after %g s", _WITHOUT_LIMITER)
            self._queue.add_after(key, _WITHOUT_LIMITER, priority=priority)
        return "error", self.last_error

    def _remember(self, key: Request, fields: dict[str, str], *, terminal: bool) -> None:
        self._history.failed(key, fields["error"], self.last_error or "", fields["place"], terminal=terminal)

    def _note_failure(self, key: Request, error: BaseException) -> dict[str, Any]:
        """Count a failure in a row, and return the fields of its log line: the class, the place and the attempt."""
        succeeded = self._successes()
        if succeeded != self._succeeded:
            self._failures, self._succeeded = 0, succeeded
        self._failures += 1
        kind, place = type(error).__name__, place_of(error.__traceback__)
        self._last_failure = f"{self.last_error} ({place})" if place else self.last_error or kind
        return {"error": kind, "place": place, "attempt": self._queue.num_requeues(key) + 1}

    def _run_after(self, key: Request, seconds: float, priority: int, counts: WorkerCounts) -> tuple[RunResult, str]:
        """Queue the key after a delay that its reconciler asked for, and reset its back-off."""
        self._queue.add_after(key, max(seconds, _MIN_DELAY), priority=priority)
        self.succeeded(key)
        counts.requeue_after += 1
        return "requeue_after", ""


def _wanted_delay(error: BaseException) -> float | None:
    """Return the seconds that the server asked for; None for others than a delay, since a plugin may make the error."""
    wait: Any = error.retry_after if isinstance(error, ApiError) else None
    return wait if isinstance(wait, int | float) and 0 < wait < math.inf else None


def _described(error: BaseException) -> str:
    """Return an error and its direct cause as one line, even if a `__str__` raises."""
    described = line_of(error)
    cause = error.__cause__
    return described if cause is None else f"{described}, caused by {line_of(cause)}"


def _is_terminal(error: BaseException) -> bool:
    """Return whether a TerminalError is anywhere in the chain of causes."""
    return any(isinstance(cause, TerminalError) for cause in causes(error))
