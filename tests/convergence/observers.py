"""Checks of an informer: a handler that verifies the sequence of events, a reconciler that reads the cache, and a
model of what the objects were at each version."""

from __future__ import annotations

import json
import queue
import random
import threading
from collections import defaultdict
from typing import Any

from ctrlhost.cache import DeletedFinalStateUnknown
from ctrlhost.informers import Informer
from ctrlhost.workqueue import ItemExponentialFailureRateLimiter, ShutDown, WorkQueue


class Versions:
    """What each object was at each version, as the server answered the writes; informers must show nothing else."""

    def __init__(self) -> None:
        #: Digests by key and version; of whole objects, and of their metadata.
        self._written: defaultdict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
        #: Key, version (empty for a deletion, which has one of its own), whether it was partial, digest.
        self._seen: set[tuple[str, str, bool, int]] = set()
        self.compared = 0

    def wrote(self, obj: dict[str, Any]) -> None:
        """Record an object as the server answered."""
        meta = obj["metadata"]
        metadata_only = {name: obj[name] for name in ("apiVersion", "kind", "metadata")}
        self._written[f"{meta['namespace']}/{meta['name']}"][meta["resourceVersion"]] = (
            _digest(obj),
            _digest(metadata_only),
        )

    def saw(self, obj: Any, *, deleted: bool = False) -> None:
        """Record an object that an informer showed, in a tombstone or not. May be called from any thread."""
        if isinstance(obj, DeletedFinalStateUnknown):
            obj = obj.object
        version = "" if deleted else obj.resource_version
        self._seen.add((obj.key, version, obj.partial, _digest(json.loads(obj.to_json()))))

    def wrong(self) -> list[str]:
        """Return the objects that never were so, and forget what was seen. Call it when no write is in flight."""
        seen, self._seen = self._seen, set()
        wrong = []
        for key, version, partial, digest in list(seen):
            known = self._written[key]
            possible = [known[version]] if version in known else [] if version else known.values()
            if digest not in {state[partial] for state in possible}:
                wrong.append(f"{key} at {version or 'its deletion'}{', metadata only' if partial else ''}")
        self.compared += len(seen)
        return wrong


def _digest(obj: dict[str, Any]) -> int:
    """Return a hash of the content, without the version and the managed fields."""
    meta = {name: value for name, value in obj["metadata"].items() if name not in ("managedFields", "resourceVersion")}
    return hash(json.dumps({**obj, "metadata": meta}, sort_keys=True))


class HandlerState:
    """The state of a handler from its events, each of which must be consistent with the previous ones."""

    def __init__(self, informer: Informer, versions: Versions) -> None:
        self._versions = versions
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
        self._versions.saw(obj)
        if obj.key in self.known:
            self.violations.append(f"{obj.key}: add at {obj.resource_version}, known at {self.known[obj.key]}")
        self.known[obj.key] = obj.resource_version

    def _updated(self, old: Any, new: Any) -> None:
        self.events += 1
        self._versions.saw(new)
        if self.known.get(old.key) != old.resource_version:
            self.violations.append(f"{old.key}: update from {old.resource_version}, known {self.known.get(old.key)}")
        if new.uid == old.uid and int(new.resource_version) < int(old.resource_version):
            self.backwards.append(f"{new.key} went from {old.resource_version} back to {new.resource_version}")
        self.known[new.key] = new.resource_version

    def _deleted(self, obj: Any) -> None:
        self.events += 1
        self._versions.saw(obj, deleted=True)
        if self.known.pop(obj.key, None) is None:
            self.violations.append(f"{obj.key}: delete of an unknown object")


class Reconciler:
    """A worker that records the last state of each key, and fails at random."""

    def __init__(self, informer: Informer, rng: random.Random, versions: Versions) -> None:
        self._versions = versions
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
                    if obj is not None:
                        self._versions.saw(obj)
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
