"""The writes of one process to the API server: counts by verb, resource and outcome, and the last ones."""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections import Counter, deque
from typing import Any, NamedTuple

from ctrlhost.controller.context import current
from ctrlhost.controller.key_text import key_text
from ctrlhost.events.sink import writing

#: The numbers of writes that are kept of each plugin, and that are shown.
KEPT, LAST = 500, 20
#: The verbs, as in RBAC.
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
#: POSTs that write nothing.
_REVIEWS = ("authentication.k8s.io", "authorization.k8s.io")
#: What a host writes for its leadership.
_LEASES = "leases.coordination.k8s.io"
#: What a Namespace has below its own path (`status`, `finalize`) is no resource in it.
_PATH = re.compile(
    r"/(?:api|apis/([^/?]+))/[^/?]+/(?:namespaces/([^/?]+)/(?!(?:status|finalize)(?:[/?]|$)))?"
    r"([^/?]+)(?:/([^/?]*))?(?:/([^?]*[^/?]))?"
)


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


#: A write as it is kept: time, verb, target, code, and of the run its controller, key, worker and number, or of an
#: event its plugin and key. Only what is shown becomes text.
_By = tuple[str, Any, int, int] | tuple[str, str] | None
_Kept = tuple[float, str, WrittenTo, str, _By]


class WriteLog:
    """Counts writes. Callable from any thread."""

    def __init__(self) -> None:
        """Start empty."""
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, str, str]] = Counter()
        #: By plugin; those outside of a reconcile have none.
        self._last: dict[str, deque[_Kept]] = {}

    def wrote(self, method: str, path: str, code: str) -> None:
        """Count one request, on the thread or in the task that made it."""
        target = target_of(path)
        if target is None:
            return
        verb = _VERBS.get(method) or method.lower()
        if verb == "delete" and not target.name:
            verb = "deletecollection"
        run = current.get()
        plugin, by = _event_of()
        if run is not None and run.request is not None:
            plugin, by = run.plugin, (run.controller, run.request, run.worker, run.number)
        write = (time.time(), verb, target, code, by)
        # Leases are renewed all the time.
        renewal = by is None and target.resource == _LEASES
        with self._lock:
            self._counts[verb, target.resource, code] += 1
            if renewal:
                return
            kept = self._last.get(plugin)
            if kept is None:
                kept = self._last[plugin] = deque(maxlen=KEPT)
            kept.append(write)

    def counts(self) -> dict[tuple[str, str, str], int]:
        """Return the numbers of writes by verb, resource and code."""
        with self._lock:
            return dict(self._counts)

    def last(self) -> list[Write]:
        """Return the last writes of all, the newest first."""
        with self._lock:
            writes = [write for kept in self._last.values() for write in itertools.islice(reversed(kept), LAST)]
        return [_shown(write) for write in sorted(writes, key=lambda write: write[0], reverse=True)[:LAST]]

    def of_plugin(self, plugin: str) -> list[Write]:
        """Return the last writes that the reconciles of a plugin made, the newest first."""
        with self._lock:
            return [_shown(write) for write in itertools.islice(reversed(self._last.get(plugin, ())), LAST)]

    def of_key(self, controller: str, key: str) -> list[Write]:
        """Return those of the kept writes that the reconciles of a key made, the newest first, but for the oldest."""
        with self._lock:
            kept = list(self._last.get(controller.partition("/")[0], ()))
        writes = (write for write in map(_shown, reversed(kept)) if write.key == key and write.controller == controller)
        return list(itertools.islice(writes, LAST))


def _shown(kept: _Kept) -> Write:
    at, verb, target, code, by = kept
    if by is None or len(by) == 2:
        return Write(at, verb, target, code, *(by or ("", "")), "")
    controller, key, worker, number = by
    return Write(at, verb, target, code, controller, key_text(key), f"{worker}-{number}")


def _event_of() -> tuple[str, _By]:
    """Return the plugin of the event that this thread writes, and whose event it is about what; nothing for none."""
    event = writing.get()
    if event is None:
        return "", None
    plugin = event[0].removeprefix("ctrlhost-")
    return plugin, (plugin, event[1])


def target_of(path: str) -> WrittenTo | None:
    """Return what the path of a URL names; None for a review and for other paths that nothing is written to."""
    match = _PATH.match(path)
    if match is None:
        return None
    group, namespace, plural, name, subresource = match.groups("")
    if group in _REVIEWS:
        return None
    resource = f"{plural}.{group}" if group else plural
    return WrittenTo(f"{resource}/{subresource}" if subresource else resource, namespace, name)
