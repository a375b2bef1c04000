"""Turn the result or error of a reconcile into calls of the queue, counts and log lines."""

from __future__ import annotations

import inspect
import logging
import math
from asyncio import CancelledError
from typing import TYPE_CHECKING, Any

from ctrlhost.controller.error_groups import decisive
from ctrlhost.controller.error_text import line_of
from ctrlhost.controller.failure_events import FailureEvents
from ctrlhost.controller.places import place_of
from ctrlhost.controller.sentences import rights_missing
from ctrlhost.controller.traces import trace_of
from ctrlhost.coordination.writes import causes, refused
from ctrlhost.errors import ApiError, Conflict, CtrlhostError, Forbidden, NotOwned, RetryAfter, Stale, TerminalError
from ctrlhost.request import Result

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ctrlhost.controller.history import History, RunResult
    from ctrlhost.controller.metrics import WorkerCounts
    from ctrlhost.coordination.writes import Permit
    from ctrlhost.permissions import Permission
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
        rights: Callable[[], Sequence[Permission]] = tuple,
        plugins: Sequence[str] = (),
    ) -> None:
        """Prepare; `timeout` is the controller's, in seconds. `rights` returns those that the plugin declares.

        `plugins` are those of the host.
        """
        self.controller = controller
        self.timeout = timeout
        #: Keys whose last run did not succeed, so that a success must be noted. A key has one worker at a time.
        self.attempts = history.attempts
        self.last_error: str | None = None
        self._queue = queue
        self._history = history
        self._events = FailureEvents()
        self._rights = rights
        self._plugins = plugins

    def ended(
        self, key: Request, priority: int, outcome: Any, counts: WorkerCounts, permit: Permit | None = None
    ) -> tuple[RunResult, str]:
        """Decide when a key runs next, by what its reconciler returned or raised; return how the run ended, and why.

        `priority` is that with which the key was handed out; its next run keeps it. `permit` is the run's: a write that
        was refused because its term is over is no error. Of an exception group, one error decides.
        """
        error = decisive(outcome) if isinstance(outcome, BaseException) else _mistake(outcome)
        try:
            match error:
                case None if _requeues(outcome):
                    wanted = priority if outcome.priority is None else outcome.priority
                    return self._run_after(key, outcome.requeue_after, wanted, counts, succeeded=True)
                case None:
                    counts.successes += 1
                    self._forget(key)
                    return "success", ""
                case _ if refused(error, permit):
                    log.info("the reconcile ended with its term: %s", _described(error))
                    self._queue.add(key, priority=priority)
                    return "next_term", _described(error)
                case CancelledError() if self._queue.shutting_down:
                    log.info("the reconcile was cancelled: the plugin ends")
                    return "error", _described(error)
                case NotOwned():
                    log.warning("the reconcile did not write an object that it does not own: %s", _described(error))
                    ended = self._run_after(key, _NOT_OWNED, priority, counts)
                    self._history.not_owned(error.message)
                    return ended
                case RunAgain():
                    log.info("reconciling again: %s", error)
                    self._queue.add(key, priority=priority)
                    counts.requeue += 1
                    return "requeue", ""
                case RetryAfter():
                    return self._run_after(key, error.seconds, priority, counts)
        except Exception as mistake:  # noqa: BLE001 - an invalid delay or priority is the plugin's mistake
            error = mistake
        counts.errors += 1
        self._advise(error)
        self.last_error = _described(error)
        kind, place = type(error).__name__, place_of(error.__traceback__)
        if terminal := _is_terminal(error):
            # Upstream keeps the back-off here, which leaks an entry per object that never succeeds.
            self._end_back_off(key)
        fields = {"error": kind, "place": place, "attempt": self.attempts.get(key, 0) + 1}
        cause = self._history.failed(key, kind, self.last_error, place, terminal=terminal, trace=trace_of(error))
        fields["cause"] = cause.id
        if not terminal:
            self._events.failed(key, cause, self.last_error)
        if terminal:
            counts.terminal += 1
            if isinstance(error, InvalidStatus):
                self._queue.add_after(key, _INVALID_STATUS, priority=priority)
            log.error("reconcile failed, not retrying until the object changes: %s", self.last_error, extra=fields)
        else:
            self._log_retried(error, fields, counts)
            self._retry(key, priority, _wanted_delay(error))
        return "terminal" if terminal else "error", self.last_error

    def _advise(self, error: BaseException) -> None:
        """Name what the operator does about a missing right that the plugin declares; else the error names its line."""
        for cause in causes(error):
            if not isinstance(cause, Forbidden) or cause.right is None:
                continue
            right = cause.right
            if any(_covers(permission, *right) for permission in self._rights()):
                cause.hint = rights_missing(self.controller.partition("/")[0], 1, self._plugins)

    def _log_retried(self, error: BaseException, fields: dict[str, Any], counts: WorkerCounts) -> None:
        if not isinstance(error, Exception):
            counts.panics += 1
            log.error("panic in the reconciler: %s [recovered]", self.last_error, exc_info=error, extra=fields)
        elif isinstance(error, (Conflict, Stale)) or _wanted_delay(error):
            log.info("retrying reconcile: %s", self.last_error, extra=fields)
        else:
            # The message of ctrlhost's own errors is enough; for others the plugin's author needs the traceback.
            trace = None if isinstance(error, CtrlhostError) else error
            log.error("reconcile failed: %s", self.last_error, exc_info=trace, extra=fields)

    def _retry(self, key: Request, priority: int, wait: float | None) -> None:
        """Queue a key again after the seconds that the server asked for, else after its back-off."""
        if wait:
            self._queue.add_after(key, wait, priority=priority)
            return
        try:
            self._queue.add_rate_limited(key, priority=priority)
        except Exception:
            # The plugin's own rate limiter failed; the key must not be lost.
            log.exception("the rate limiter failed; retrying the key after %g s", _WITHOUT_LIMITER)
            self._queue.add_after(key, _WITHOUT_LIMITER, priority=priority)

    def _forget(self, key: Request, *, succeeded: bool = True) -> None:
        """Forget the failures of a key, and its attempts if it succeeded."""
        if succeeded:
            self._history.succeeded(key)
        else:
            self._history.postponed(key)
        self._end_back_off(key)

    def _end_back_off(self, key: Request) -> None:
        self._events.succeeded(key)
        try:
            self._queue.forget(key)
        except Exception:
            # The plugin's own rate limiter failed; the result of the run stands.
            log.exception("controller %s: the rate limiter failed to forget %s", self.controller, key)

    def _run_after(
        self, key: Request, seconds: float, priority: int, counts: WorkerCounts, *, succeeded: bool = False
    ) -> tuple[RunResult, str]:
        """Queue the key after a delay that its reconciler asked for, and reset its back-off."""
        self._queue.add_after(key, max(seconds, _MIN_DELAY), priority=priority)
        self._forget(key, succeeded=succeeded)
        counts.requeue_after += 1
        return "requeue_after", ""


def _mistake(outcome: Any) -> TypeError | None:
    """Return the error of a reconciler that returned something else than a Result."""
    if outcome is None or isinstance(outcome, Result):
        return None
    if inspect.iscoroutine(outcome):
        # Else Python warns about it later, at another place.
        outcome.close()
        message = "the coroutine that the reconciler returned was not awaited"
        return TypeError(f"{message}: make the reconciler an `async def`")
    return TypeError(f"the reconciler returned {type(outcome).__name__}; it must return None or ctrlhost.Result")


def _requeues(result: Result | None) -> bool:
    """Return whether a reconciler asked for another run. Not `> 0`: the queue refuses what is not a number."""
    return result is not None and result.requeue_after is not None and not result.requeue_after <= 0


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


def _covers(permission: Permission, namespace: str, group: str, resource: str, verb: str) -> bool:
    """Return whether a permission covers a request, whatever the name of its object; "" is every namespace."""
    return (
        permission.namespace in (None, namespace)
        and permission.group in ("*", group)
        and not {"*", resource}.isdisjoint(permission.resources)
        and not {"*", verb}.isdisjoint(permission.verbs)
    )
