"""Expectations: creations and deletions that a controller has asked for and its cache has not shown yet.

A controller that counts what it owns, as ReplicaSets do, would act on the same shortage twice if it looked at its cache
between its own write and the event of it. It says beforehand what it is about to do, counts the events as they come,
and does nothing for an owner whose expectations are open. What never comes is given up after a time, by default five
minutes, so that an event which was missed costs a delay and never a standstill.

`ctx.get` and listers show a plugin's own writes by themselves; expectations are for what these can not know: objects
under names that the server makes up, if the answer got lost, and deletions that take their time.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from ctrlhost.clock import Clock
    from ctrlhost.informers import Informer
    from ctrlhost.informers.handle import Handle

#: How long expectations are waited for, in seconds.
TIMEOUT = 300.0

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class _Expected:
    """What is open for one owner."""

    since: float
    creations: int = 0
    deletions: set[str] = field(default_factory=set)

    @property
    def fulfilled(self) -> bool:
        return not self.creations and not self.deletions


class Expectations(Generic[K]):
    """Keeps count per owner, whose key is anything hashable, usually its `Request`. Methods are safe from any thread.

        expectations = Expectations(plugin.clock)
        expectations.watch(pods, lambda pod: Request(owner_name(pod), pod.namespace))

        def reconcile(ctx, request):
            if not expectations.satisfied(request):
                return  # an event will come, or the time will pass
            expectations.expect_creations(request, missing)
            for _ in range(missing):
                try:
                    ctx.client.create(...)
                except Exception:
                    expectations.creation_observed(request)  # it will not be seen
                    raise

    `watch` wakes nobody: the events do that, through the controller's sources.
    """

    def __init__(self, clock: Clock, *, timeout: float = TIMEOUT) -> None:
        """Expect nothing yet; what is not seen `timeout` seconds after it was last added to is given up."""
        if not timeout > 0:
            raise ValueError(f"timeout is a positive number of seconds, not {timeout!r}")
        self._clock = clock
        self._timeout = timeout
        self._lock = threading.Lock()
        self._expected: dict[K, _Expected] = {}

    def expect_creations(self, key: K, count: int) -> None:
        """Expect so many creations, besides what is open; to be called before the first of them is asked for."""
        if count < 0:
            raise ValueError(f"a count is not negative: {count}")
        with self._lock:
            expected = self._open(key)
            expected.creations += count
            self._close(key, expected)

    def expect_deletions(self, key: K, uids: Iterable[str]) -> None:
        """Expect that the objects with these uids go; to be called before the first deletion is asked for.

        An object that carries a deletion timestamp counts as gone.
        """
        with self._lock:
            self._open(key).deletions.update(uids)
            self._close(key, self._expected[key])

    def creation_observed(self, key: K) -> None:
        """Count a creation that was seen, or that failed and never will be."""
        with self._lock:
            expected = self._expected.get(key)
            if expected is not None and expected.creations > 0:
                expected.creations -= 1
                self._close(key, expected)

    def deletion_observed(self, key: K, uid: str) -> None:
        """Count a deletion that was seen, or that failed; one uid counts once, however often it is seen."""
        with self._lock:
            expected = self._expected.get(key)
            if expected is not None:
                expected.deletions.discard(uid)
                self._close(key, expected)

    def satisfied(self, key: K) -> bool:
        """Say whether everything expected was seen, or waited for long enough; true of what nothing is expected of."""
        with self._lock:
            expected = self._expected.get(key)
            if expected is None:
                return True
            if self._clock.now() - expected.since < self._timeout:
                return False
            del self._expected[key]
            return True

    def remaining(self, key: K) -> float:
        """Give the seconds until what is expected is given up, for `Result(requeue_after=…)`; 0 where nothing is."""
        with self._lock:
            expected = self._expected.get(key)
            return 0.0 if expected is None else max(expected.since + self._timeout - self._clock.now(), 0.0)

    def forget(self, key: K) -> None:
        """Expect nothing more of an owner, as when it is deleted."""
        with self._lock:
            self._expected.pop(key, None)

    def open(self, key: K) -> tuple[int, frozenset[str]]:
        """Give how many creations are open, and the uids whose deletions are."""
        with self._lock:
            expected = self._expected.get(key)
            return (0, frozenset()) if expected is None else (expected.creations, frozenset(expected.deletions))

    def watch(self, informer: Informer, owner: Any) -> Handle:
        """Count what an informer shows; `owner(obj)` gives the key of an object's owner, None for none."""

        def added(obj: Any, _initial: bool) -> None:
            key = owner(obj)
            if key is None:
                return
            if obj.deletion_timestamp is not None:
                # A list may bring an object that is on its way out: nobody saw it appear.
                self.deletion_observed(key, obj.uid)
            else:
                self.creation_observed(key)

        def updated(_old: Any, obj: Any) -> None:
            if obj.deletion_timestamp is not None and (key := owner(obj)) is not None:
                self.deletion_observed(key, obj.uid)

        def deleted(gone: Any) -> None:
            # Of a tombstone the last known state, if there is one.
            obj = getattr(gone, "object", gone)
            if obj is not None and (key := owner(obj)) is not None:
                self.deletion_observed(key, obj.uid)

        return informer.add_handler(added, updated, deleted, name="expectations", every_change=True)

    def _open(self, key: K) -> _Expected:
        """Give what is open for an owner, as of now; expects the lock."""
        expected = self._expected.setdefault(key, _Expected(0.0))
        expected.since = self._clock.now()
        return expected

    def _close(self, key: K, expected: _Expected) -> None:
        """Forget an owner of whom everything was seen; expects the lock."""
        if expected.fulfilled:
            del self._expected[key]
