"""The mass-removal brake: when many ProviderHosts vanish at once, their routes stay until that is confirmed."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING

from ctrlhost_hostname.pages import to_json

if TYPE_CHECKING:
    from collections.abc import Callable

    import ctrlhost

WINDOW = 60.0
# In a small cluster each ProviderHost is a large part.
_FEW = 3


class RemovalBrake:
    """Compares the number of ProviderHosts with the highest one of the last minute. Callable from any thread.

    Once engaged it stays so until the ProviderHosts are back, or no hostname is held any longer: each was confirmed,
    removed by hand or claimed again. `changed` is called after every change.
    """

    def __init__(self, clock: ctrlhost.Clock, percent: int, changed: Callable[[], None] = lambda: None) -> None:
        """Set how many percent may vanish; with 0 the brake is off."""
        self._clock = clock
        self._percent = percent
        self._changed = changed
        self._lock = threading.Lock()
        self._hosts = 0
        # The highest number before the brake engaged; 0 while it is not.
        self._before = 0
        self._held: set[str] = set()
        # Times and numbers, which fall from left to right; each counts until the time of the next.
        self._numbers: deque[tuple[float, int]] = deque()

    def restart(self, routes: int) -> None:
        """Begin a term with so many removable routes, which had a ProviderHost each."""
        with self._lock:
            self._release(routes)

    def observe(self, count: Callable[[], int]) -> str | None:
        """Note the number of ProviderHosts; return what happened if the brake engages now."""
        with self._lock:
            # Counted with the lock: a number from before the last one would look like a return.
            now, hosts = self._clock.now(), count()
            self._hosts = hosts
            if self._before:
                if not self._too_many(self._before - hosts, self._before):
                    self._release(hosts)
                    self._changed()
                return None
            while len(self._numbers) > 1 and self._numbers[1][0] <= now - WINDOW:
                self._numbers.popleft()
            while self._numbers and self._numbers[-1][1] <= hosts:
                self._numbers.pop()
            self._numbers.append((now, hosts))
            before = self._numbers[0][1]
            if before - hosts < _FEW or not self._too_many(before - hosts, before):
                return None
            self._before = before
            self._changed()
            return f"{before - hosts} of {before} ProviderHosts vanished within a minute"

    def holds(self, hostname: str) -> bool:
        """Return whether the routes of an unclaimed hostname must stay for now."""
        with self._lock:
            if self._before:
                self._held.add(hostname)
                self._changed()
            return self._before > 0

    def drop(self, hostname: str) -> None:
        """Forget a hostname that was claimed again or has no removable route left."""
        with self._lock:
            if hostname in self._held:
                self._held.remove(hostname)
                if not self._held:
                    self._release(self._hosts)
                self._changed()

    def held(self) -> int:
        """Return the number of hostnames whose routes stay."""
        return len(self._held)

    def to_json(self) -> bytes:
        """Encode the state for `/removal-brake`."""
        with self._lock:
            state = {"engaged": bool(self._before), "hosts-before": self._before, "hosts": self._hosts}
            return to_json({**state, "held": sorted(self._held)})

    def _too_many(self, vanished: int, before: int) -> bool:
        return self._percent > 0 and vanished * 100 > before * self._percent

    def _release(self, hosts: int) -> None:
        self._before = 0
        self._held.clear()
        self._numbers = deque([(self._clock.now(), hosts)])
