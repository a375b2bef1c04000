"""The last runs of a controller, and the keys whose last run failed; both bounded."""

from __future__ import annotations

import itertools
import threading
import time
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ctrlhost.controller.context import current
from ctrlhost.controller.error_log import ErrorEntry
from ctrlhost.controller.key_text import key_text

if TYPE_CHECKING:
    from ctrlhost.clock import Clock
    from ctrlhost.controller.error_log import ErrorLog

#: The runs of each controller that are kept.
RUNS = 200
#: The keys of each controller of which the last error is kept, and of which it is known that no retry follows.
_DETAILS = 1000

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


class History:
    """The last runs of one controller, and its failing keys.

    Workers write: a key has one worker at a time. The methods that return something may be called from any thread.
    """

    def __init__(self, controller: str, clock: Clock, errors: ErrorLog) -> None:
        """Start empty; add the errors to those of the host."""
        self.controller = controller
        #: The fields of a `Run`, or the first five of them: a tuple costs less than an object in the workers' loop.
        self.runs: deque[tuple[Any, ...]] = deque(maxlen=RUNS)
        #: The keys whose last run failed, in the order of their first failure.
        self.failing: dict[Any, None] = {}
        #: The runs since the last success of each key whose last run did not succeed; 0 after one that is not retried.
        self.attempts: dict[Any, int] = {}
        self._clock = clock
        self._errors = errors
        self._lock = threading.Lock()
        #: By the order of their last failure.
        self._details: OrderedDict[Any, Failure] = OrderedDict()
        self._terminal: OrderedDict[Any, None] = OrderedDict()
        #: The last error of a run that ended with NotOwned, and when.
        self._not_owned = ("", float("-inf"))

    def failed(self, key: Any, kind: str, error: str, place: str, *, terminal: bool) -> None:
        """Note that the run of a key that ends now failed."""
        run = current.get()
        number = run.reconcile_id if run is not None else ""
        with self._lock:
            before = self._details.pop(key, None)
            count = 1 if before is None else before.failures + 1
            self._details[key] = Failure(count, kind, error, place, number, self._clock.now(), terminal)
            self._terminal.pop(key, None)
            self.failing[key] = None
            self.attempts[key] = 0 if terminal else self.attempts.get(key, 0) + 1
            if terminal:
                self._terminal[key] = None
                if len(self._terminal) > _DETAILS:
                    forgotten = self._terminal.popitem(last=False)[0]
                    self.failing.pop(forgotten, None)
                    self.attempts.pop(forgotten, None)
                    self._details.pop(forgotten, None)
            if len(self._details) > _DETAILS:
                self._details.popitem(last=False)
        self._errors.add(ErrorEntry(time.time(), self.controller, key_text(key), number, kind, error, place))

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
        self.failing.pop(key, None)
        self._details.pop(key, None)
        self._terminal.pop(key, None)

    def now(self) -> float:
        """Return the time by the clock of runs and failures."""
        return self._clock.now()

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
            return [(key, failure) for key in self._terminal if (failure := self._details.get(key)) is not None]

    def failing_keys(self, first: int, count: int) -> list[Any]:
        """Return some of the failing keys, by their order from 0."""
        with self._lock:
            return list(itertools.islice(self.failing, first, first + count))

    def last_runs(self) -> list[Run]:
        """Return the last runs, the newest first."""
        return [Run(*fields) for fields in reversed(self.runs.copy())]
