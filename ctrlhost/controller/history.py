"""The last runs of a controller, the keys whose last run failed, and the causes for which they fail; all bounded."""

from __future__ import annotations

import itertools
import threading
import time
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ctrlhost.controller.causes import Causes
from ctrlhost.controller.context import current
from ctrlhost.controller.error_log import ErrorEntry
from ctrlhost.controller.key_text import key_text
from ctrlhost.controller.severity import Outcomes, severity

if TYPE_CHECKING:
    from ctrlhost.clock import Clock
    from ctrlhost.controller.causes import Cause
    from ctrlhost.controller.error_log import ErrorLog
    from ctrlhost.controller.traces import Trace

#: The runs of each controller that are kept, and of each failing key.
RUNS, RUNS_OF_KEY = 200, 5
#: The keys of each controller of which the last error and runs are kept, and the bytes of their texts.
_DETAILS, _BYTES = 1000, 2 << 20
#: The keys of each controller of which it is known that no retry follows.
_GIVEN_UP = 100_000

RunResult = Literal["success", "requeue", "requeue_after", "error", "terminal", "next_term"]


class Run(NamedTuple):
    """One run that has ended; the worker and its number are the id."""

    key: Any
    #: Seconds of the host's clock.
    started: float
    seconds: float
    worker: int
    number: int
    result: RunResult = "success"
    #: The error in one line; empty without one.
    error: str = ""

    @property
    def reconcile_id(self) -> str:
        """The id of the run, as on its log lines."""
        return f"{self.worker}-{self.number}"


class FailingKey(NamedTuple):
    """Since when a key fails, in seconds of the host's clock, and why."""

    since: float
    cause: Cause


class Failure(NamedTuple):
    """The last error of a key."""

    #: Failures since the last success.
    failures: int
    kind: str
    error: str
    place: str
    reconcile_id: str
    #: In seconds of the host's clock.
    at: float
    #: Whether no retry follows.
    terminal: bool
    #: When the first of the failures was, in seconds of the host's clock.
    since: float
    cause: Cause
    trace: Trace | None
    #: The last runs of the key, as in `History.runs`.
    runs: deque[tuple[Any, ...]]
    #: About the bytes that it takes.
    size: int


class History:
    """The last runs of one controller, and its failing keys.

    Workers write: a key has one worker at a time. The methods that return something may be called from any thread.
    """

    def __init__(self, controller: str, clock: Clock, errors: ErrorLog) -> None:
        """Start empty; add the errors to those of the host."""
        self.controller = controller
        self.causes = Causes(controller)
        #: The fields of a `Run`, or the first five of them: a tuple costs less than an object in the workers' loop.
        self.runs: deque[tuple[Any, ...]] = deque(maxlen=RUNS)
        #: The keys whose last run failed, in the order of their first failure.
        self.failing: dict[Any, FailingKey] = {}
        #: The runs since the last success of each key whose last run did not succeed; 0 after one that is not retried.
        self.attempts: dict[Any, int] = {}
        self._clock = clock
        self._errors = errors
        self._lock = threading.Lock()
        #: By the order of their last failure, and the bytes that they take.
        self._details: OrderedDict[Any, Failure] = OrderedDict()
        self._size = 0
        self._terminal: OrderedDict[Any, None] = OrderedDict()
        #: The last error of a run that ended with NotOwned, and when.
        self._not_owned = ("", float("-inf"))

    def failed(
        self, key: Any, kind: str, error: str, place: str, *, terminal: bool, trace: Trace | None = None
    ) -> Cause:
        """Note that the run of a key that ends now failed; return the cause."""
        run = current.get()
        number = run.reconcile_id if run is not None else ""
        now = self._clock.now()
        with self._lock:
            cause = self.causes.failed(key, kind, place, error, number, trace, now)
            known = self.failing.get(key)
            since = now if known is None else known.since
            self.causes.move(None if known is None else known.cause, cause)
            self.failing[key] = FailingKey(since, cause)
            before = self._details.get(key)
            count, runs = (1, deque(maxlen=RUNS_OF_KEY)) if before is None else (before.failures + 1, before.runs)
            self._forget_details(key)
            size = RUNS_OF_KEY * (200 + len(error)) + (0 if trace is None else trace.size)
            self._details[key] = Failure(
                count, kind, error, place, number, now, terminal, since, cause, cause.trace, runs, size
            )
            self._size += size
            self._terminal.pop(key, None)
            self.attempts[key] = 0 if terminal else self.attempts.get(key, 0) + 1
            if terminal:
                self._terminal[key] = None
                if len(self._terminal) > _GIVEN_UP:
                    forgotten = next(iter(self._terminal))
                    self._end_failure(forgotten)
                    self.attempts.pop(forgotten, None)
            while len(self._details) > _DETAILS or (self._size > _BYTES and len(self._details) > 1):
                self._forget_details(next(iter(self._details)))
        self._errors.add(ErrorEntry(time.time(), self.controller, key_text(key), number, kind, error, place))
        if run is not None:
            run.cause = cause
        return cause

    def ended(self, run: tuple[Any, ...]) -> None:
        """Keep a run that did more than succeed: the fields of a `Run`."""
        self.runs.append(run)
        if not self._details:
            return
        with self._lock:
            if (failure := self._details.get(run[0])) is not None:
                failure.runs.append(run)

    def not_owned(self, error: str) -> None:
        """Note that a run ended now with NotOwned."""
        self._not_owned = (error, self._clock.now())

    def conflict(self, within: float) -> str:
        """Return the error of the last run that ended with NotOwned within so many seconds; empty for none."""
        error, at = self._not_owned
        return error if self._clock.now() < at + within else ""

    def succeeded(self, key: Any) -> None:
        """Note that a key has succeeded."""
        with self._lock:
            self._end_failure(key)
            self.attempts.pop(key, None)

    def postponed(self, key: Any) -> None:
        """Note that a run did not fail, and that its key runs again until it succeeds."""
        with self._lock:
            self._end_failure(key)
            self.attempts[key] = self.attempts.get(key, 0) + 1

    def _end_failure(self, key: Any) -> None:
        if (failing := self.failing.pop(key, None)) is not None:
            self.causes.move(failing.cause, None)
        self._forget_details(key)
        self._terminal.pop(key, None)

    def _forget_details(self, key: Any) -> None:
        if (failure := self._details.pop(key, None)) is not None:
            self._size -= failure.size

    def now(self) -> float:
        """Return the time by the clock of runs and failures."""
        return self._clock.now()

    def outcomes(self, objects: int) -> Outcomes:
        """Return the keys by their last runs; `objects` is how many there are at least, as far as is known.

        A key that has succeeded is not kept, so those are the objects, or what the last runs were about.
        """
        runs = self.runs.copy()
        in_a_row = 0
        for run in reversed(runs):
            # A run with five fields has succeeded.
            if len(run) == 5 or run[5] not in ("error", "terminal"):
                break
            in_a_row += 1
        keys = {run[0] for run in runs}
        with self._lock:
            failing = len(self.failing)
            since = next((key.since for key in self.failing.values()), None)
            # Not a difference of sets, which would go through all failing keys.
            others = sum(key not in self.failing for key in keys)
        count = max(objects, failing + others)
        seconds = 0.0 if since is None else self._clock.now() - since
        return Outcomes(
            count, failing, self.causes.failing, since, severity(count, failing, seconds, in_a_row), seconds
        )

    @property
    def retrying(self) -> int:
        """The number of keys whose last run failed and that are retried."""
        return len(self.failing) - len(self._terminal)

    def failure(self, key: Any) -> Failure | None:
        """Return the last error of a key; None if its last run did not fail, or many have failed since."""
        with self._lock:
            return self._details.get(key)

    def failures(self) -> list[tuple[Any, Failure]]:
        """Return the keys whose last errors are known, at most 1,000, and these errors."""
        with self._lock:
            return list(self._details.items())

    def given_up(self) -> list[tuple[Any, Failure]]:
        """Return the keys whose last errors are known and that are not retried, and these errors."""
        with self._lock:
            return [(key, failure) for key, failure in self._details.items() if failure.terminal]

    def failing_keys(self, first: int, count: int, cause: str = "") -> list[Any]:
        """Return some of the failing keys, of one cause if its id is given, by their order from 0."""
        with self._lock:
            keys = (key for key, failing in self.failing.items() if not cause or failing.cause.id == cause)
            return list(itertools.islice(keys, first, first + count))

    def last_runs(self) -> list[Run]:
        """Return the last runs, the newest first."""
        return [Run(*fields) for fields in reversed(self.runs.copy())]

    def runs_of(self, key: Any) -> list[Run]:
        """Return the last runs of a key, the newest first: those among the last of all, and the last five of its own.

        The latter are kept while it fails.
        """
        runs = [run for run in self.last_runs() if run.key == key]
        with self._lock:
            failure = self._details.get(key)
            kept = [Run(*fields) for fields in failure.runs] if failure is not None else []
        known = {(run.worker, run.number) for run in runs}
        older = [run for run in reversed(kept) if (run.worker, run.number) not in known]
        return sorted([*runs, *older], key=lambda run: run.started, reverse=True)
