"""The writes of one process to the API server: counts by verb, resource and outcome, and the last ones."""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter, deque
from typing import NamedTuple

from ctrlhost.controller.context import current
from ctrlhost.controller.key_text import key_text

#: The numbers of writes that are kept of each plugin, and that are shown.
KEPT, LAST = 500, 20
#: The verbs, as in RBAC.
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
#: POSTs that write nothing.
_REVIEWS = ("authentication.k8s.io", "authorization.k8s.io")
#: What a Namespace has below its own path that is no resource in it.
_OF_NAMESPACES = ("status", "finalize")


class WrittenTo(NamedTuple):
    """The target of a write; the name is empty for a creation and for a collection."""

    resource: str
    namespace: str
    name: str


class Write(NamedTuple):
    """One write."""

    #: In seconds since the epoch.
    time: float
    verb: str
    target: WrittenTo
    code: str
    controller: str
    key: str
    reconcile_id: str


class WriteLog:
    """Counts writes. Callable from any thread."""

    def __init__(self) -> None:
        """Start empty."""
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str, str]] = Counter()
        #: By plugin; those outside of a reconcile have none.
        self._last: dict[str, deque[Write]] = {}

    def wrote(self, method: str, path: str, code: str) -> None:
        """Count one request, on the thread or in the task that made it."""
        target = target_of(path)
        if target is None:
            return
        verb = _VERBS.get(method, method.lower())
        if verb == "delete" and not target.name:
            verb = "deletecollection"
        run = current.get()
        controller, key, number = "", "", ""
        if run is not None and run.request is not None:
            controller, key, number = run.controller, key_text(run.request), run.reconcile_id
        write = Write(time.time(), verb, target, code, controller, key, number)
        with self._lock:
            self._counts[verb, target.resource, code] += 1
            self._last.setdefault(controller.partition("/")[0], deque(maxlen=KEPT)).append(write)

    def counts(self) -> dict[tuple[str, str, str], int]:
        """Return the numbers of writes by verb, resource and code."""
        with self._lock:
            return dict(self._counts)

    def last(self) -> list[Write]:
        """Return the last writes of all, the newest first."""
        with self._lock:
            writes = [write for kept in self._last.values() for write in itertools.islice(reversed(kept), LAST)]
        return sorted(writes, key=lambda write: write.time, reverse=True)[:LAST]

    def of_plugin(self, plugin: str) -> list[Write]:
        """Return the last writes that the reconciles of a plugin made, the newest first."""
        with self._lock:
            return list(itertools.islice(reversed(self._last.get(plugin, ())), LAST))

    def of_key(self, controller: str, key: str) -> list[Write]:
        """Return those of the kept writes that the reconciles of a key made, the newest first, but for the oldest."""
        with self._lock:
            kept = list(self._last.get(controller.partition("/")[0], ()))
        writes = (write for write in reversed(kept) if write.key == key and write.controller == controller)
        return list(itertools.islice(writes, LAST))


def target_of(path: str) -> WrittenTo | None:
    """Return what the path of a URL names; None for a review and for other paths that nothing is written to."""
    parts = path.partition("?")[0].strip("/").split("/")
    if parts[0] == "apis" and len(parts) > 3:
        group, rest = parts[1], parts[3:]
    elif parts[0] == "api" and len(parts) > 2:
        group, rest = "", parts[2:]
    else:
        return None
    if group in _REVIEWS:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _OF_NAMESPACES:
        namespace, rest = rest[1], rest[2:]
    resource = f"{rest[0]}.{group}" if group else rest[0]
    name = rest[1] if len(rest) > 1 else ""
    return WrittenTo("/".join([resource, *rest[2:]]), namespace, name)
