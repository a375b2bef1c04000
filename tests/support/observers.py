"""Checks of an informer: a handler that verifies the sequence of events, and a reconciler that reads the cache."""

from __future__ import annotations

import queue
import random
import threading
from typing import Any

from ctrlhost.informers import Informer
from ctrlhost.workqueue import ItemExponentialFailureRateLimiter, ShutDown, WorkQueue


class HandlerState:
    """The state of a handler from its events, each of which must be consistent with the previous ones."""

    def __init__(self, informer: Informer) -> None:
        self.known: dict[str, str] = {}
        self.violations: list[str] = []
        #: Updates to an older state, which only a server that goes back in time may cause.
        self.backwards: list[str] = []
        self.events = 0
        informer.add_handler(self._added, self._updated, self._deleted)

    def held(self) -> dict[str, str]:
        return dict(self.known)

    def _added(self, obj: Any, initial: bool) -> None:
        self.events += 1
        if obj.key in self.known:
            self.violations.append(f"{obj.key}: add at {obj.resource_version}, known at {self.known[obj.key]}")
        self.known[obj.key] = obj.resource_version

    def _updated(self, old: Any, new: Any) -> None:
        self.events += 1
        if self.known.get(old.key) != old.resource_version:
            self.violations.append(f"{old.key}: update from {old.resource_version}, known {self.known.get(old.key)}")
        if new.uid == old.uid and int(new.resource_version) < int(old.resource_version):
            self.backwards.append(f"{new.key} went from {old.resource_version} back to {new.resource_version}")
        self.known[new.key] = new.resource_version

    def _deleted(self, obj: Any) -> None:
        self.events += 1
        if self.known.pop(obj.key, None) is None:
            self.violations.append(f"{obj.key}: delete of an unknown object")


class Reconciler:
    """A worker that records the last state of each key, and fails at random."""

    def __init__(self, informer: Informer, rng: random.Random) -> None:
        self.seen: dict[str, str] = {}
        self.runs = 0
        self._informer = informer
        self._rng = rng
        self._queue = WorkQueue(rate_limiter=ItemExponentialFailureRateLimiter(0.0005, 0.002))
        self._busy = threading.Lock()
        informer.enqueue_to(self._queue)
        self._thread = threading.Thread(target=self._work, name="reconciler", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while True:
            try:
                request = self._queue.get(timeout=5)
            except queue.Empty:
                continue
            except ShutDown:
                return
            with self._busy:
                self.runs += 1
                if self._rng.random() < 0.1:
                    self._queue.add_rate_limited(request)
                else:
                    obj = self._informer.lister.get(request.name, request.namespace)
                    self.seen[f"{request.namespace}/{request.name}"] = obj.resource_version if obj is not None else ""
                    self._queue.forget(request)
                self._queue.done(request)

    def held(self) -> dict[str, str]:
        """Return the version of each object in its last reconcile, without deleted ones."""
        with self._busy:
            return {key: version for key, version in self.seen.items() if version}

    def stop(self) -> None:
        self._queue.shut_down()
        self._thread.join(10)
