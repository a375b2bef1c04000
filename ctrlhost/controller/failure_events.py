"""Events about objects that keep failing, for those who own them: `kubectl describe` shows why nothing happens."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from ctrlhost.controller.context import current
from ctrlhost.errors import CtrlhostError

if TYPE_CHECKING:
    from typing import Any

    from ctrlhost.controller.causes import Cause

#: Failures in a row, or seconds since the first of them, after which an event is due.
FAILURES, SECONDS = 5, 300.0
#: Seconds until the same cause of an object is recorded again.
AGAIN = 600.0
#: The most keys that are remembered, and the most causes of one.
_KEYS, _CAUSES = 10_000, 20


class _Failing(NamedTuple):
    """A key that fails."""

    since: float
    failures: int
    #: When each cause was recorded last.
    told: dict[str, float]


class FailureEvents:
    """Records the events of one controller. A key has one worker at a time; different keys may come on any thread."""

    def __init__(self) -> None:
        """Start without failing keys."""
        self._failing: OrderedDict[Any, _Failing] = OrderedDict()

    def failed(self, key: Any, cause: Cause, error: str) -> None:
        """Note that the run of this thread or task failed for a key, with a cause and the line of the error."""
        run = current.get()
        if run is None:
            return
        now = run.clock.now()
        since, failures, told = self._failing.pop(key, _Failing(now, 0, {}))
        self._failing[key] = _Failing(since, failures + 1, told)
        if len(self._failing) > _KEYS:
            self._failing.popitem(last=False)
        if failures + 1 < FAILURES and now - since < SECONDS:
            return
        if now - told.get(cause.title, -AGAIN) < AGAIN or (cause.title not in told and len(told) >= _CAUSES):
            return
        try:
            obj = run.get(key)
        except CtrlhostError:
            # A controller without a `For`: its keys need not be objects.
            return
        if obj is not None:
            told[cause.title] = now
            # Another action is another event: equal ones become a series, whose note stays.
            run.events.warning(obj, "ReconcileFailed", error, action=cause.title)

    def succeeded(self, key: Any) -> None:
        """Forget the failures of a key."""
        self._failing.pop(key, None)
