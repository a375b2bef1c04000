"""Expectations: creations and deletions that a controller has requested and its cache does not show yet.

They work as `ControllerExpectations` in kube-controller-manager.

A controller that counts what it owns, as ReplicaSets do, would act on the same shortage twice if it read its cache
between its own write and the event of it. It registers the writes beforehand, counts the events, and does nothing for
an owner with open expectations. They expire, by default after five minutes, so that a missed event only delays the
controller.

`ctx.get` and listers show a plugin's own writes by themselves; expectations cover what these cannot show: objects with
generated names if the response was lost, and deletions that take time.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ctrlhost.duration import in_seconds

if TYPE_CHECKING:
    from ctrlhost.clock import Clock
    from ctrlhost.duration import DurationLike
    from ctrlhost.informers import Informer
    from ctrlhost.informers.handle import Handle

#: How long expectations stay open, in seconds.
TIMEOUT = 300.0

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class _Expected:
    """The open expectations of one owner."""

    since: float
    creations: int = 0
    deletions: set[str] = field(default_factory=set)

    @property
    def fulfilled(self) -> bool:
        return not self.creations and not self.deletions


class Expectations(Generic[K]):
    """Open expectations per owner, whose key is any hashable, usually its `Request`. Methods are safe from any thread.

        expectations = Expectations(plugin.clock)
        expectations.watch(pods, lambda pod: Request(owner_name(pod), pod.namespace))

        def reconcile(ctx, request):
            if not expectations.satisfied(request):
                return  # an event will follow, or the expectations expire
            expectations.expect_creations(request, missing)
            for _ in range(missing):
                try:
                    ctx.client.create(...)
                except Exception:
                    expectations.creation_observed(request)  # there will be no event
                    raise

    `watch` enqueues nothing: the controller's sources do that.
    """

    def __init__(self, clock: Clock, *, timeout: DurationLike = TIMEOUT) -> None:
        """Start empty; an owner's expectations expire `timeout`, a duration, after the last addition."""
        self._timeout = in_seconds(timeout)
        if not self._timeout > 0:
            raise ValueError(f"timeout must be positive, got {timeout!r}")
        self._clock = clock
        self._lock = threading.Lock()
        self._expected: dict[K, _Expected] = {}

    def expect_creations(self, key: K, count: int) -> None:
        """Add `count` creations; call it before the first of them is requested. ValueError for a negative count."""
        if count < 0:
            raise ValueError(f"count must not be negative, got {count}")
        with self._lock:
            expected = self._open(key)
            expected.creations += count
            self._close(key, expected)

    def expect_deletions(self, key: K, uids: Iterable[str]) -> None:
        """Add deletions of the objects with these uids; call it before the first of them is requested.

        An object with a deletion timestamp counts as deleted.
        """
        with self._lock:
            self._open(key).deletions.update(uids)
            self._close(key, self._expected[key])

    def creation_observed(self, key: K) -> None:
        """Count a creation that was observed, or that failed."""
        with self._lock:
            expected = self._expected.get(key)
            if expected is not None and expected.creations > 0:
                expected.creations -= 1
                self._close(key, expected)

    def deletion_observed(self, key: K, uid: str) -> None:
        """Count a deletion that was observed, or that failed; each uid counts once."""
        with self._lock:
            expected = self._expected.get(key)
            if expected is not None:
                expected.deletions.discard(uid)
                self._close(key, expected)

    def satisfied(self, key: K) -> bool:
        """Return whether no expectation of an owner is open: each was observed or has expired, or none was added."""
        with self._lock:
            expected = self._expected.get(key)
            if expected is None:
                return True
            if self._clock.now() - expected.since < self._timeout:
                return False
            del self._expected[key]
            return True

    def remaining(self, key: K) -> float:
        """Return the seconds until the expectations expire, for `Result(requeue_after=…)`; 0 if there are none."""
        with self._lock:
            expected = self._expected.get(key)
            return 0.0 if expected is None else max(expected.since + self._timeout - self._clock.now(), 0.0)

    def forget(self, key: K) -> None:
        """Drop the expectations of an owner, for example when it is deleted."""
        with self._lock:
            self._expected.pop(key, None)

    def open(self, key: K) -> tuple[int, frozenset[str]]:
        """Return the number of open creations, and the uids of open deletions."""
        with self._lock:
            expected = self._expected.get(key)
            return (0, frozenset()) if expected is None else (expected.creations, frozenset(expected.deletions))

    def watch(self, informer: Informer, owner: Any) -> Handle:
        """Count the events of an informer; `owner(obj)` returns the key of an object's owner, or None."""

        def added(obj: Any, _initial: bool) -> None:
            key = owner(obj)
            if key is None:
                return
            if obj.deletion_timestamp is not None:
                # A list may contain an object that is being deleted, and whose creation was not observed.
                self.deletion_observed(key, obj.uid)
            else:
                self.creation_observed(key)

        def updated(_old: Any, obj: Any) -> None:
            if obj.deletion_timestamp is not None and (key := owner(obj)) is not None:
                self.deletion_observed(key, obj.uid)

        def deleted(gone: Any) -> None:
            # The last known state of a tombstone, if there is one.
            obj = getattr(gone, "object", gone)
            if obj is not None and (key := owner(obj)) is not None:
                self.deletion_observed(key, obj.uid)

        return informer.add_handler(added, updated, deleted, name="expectations", every_change=True)

    def _open(self, key: K) -> _Expected:
        """Return the expectations of an owner and restart their timeout; the caller holds the lock."""
        expected = self._expected.setdefault(key, _Expected(0.0))
        expected.since = self._clock.now()
        return expected

    def _close(self, key: K, expected: _Expected) -> None:
        """Drop the expectations of an owner if all are fulfilled; the caller holds the lock."""
        if expected.fulfilled:
            del self._expected[key]
