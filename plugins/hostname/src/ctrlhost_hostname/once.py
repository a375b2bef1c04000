"""Reports about an object that are made once, not at each reconcile."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctrlhost

_MAX_REPORTS = 16384


class OncePerVersion:
    """Limits reports about an object to one per version."""

    def __init__(self) -> None:
        """Start without reports."""
        self._lock = threading.Lock()
        self._seen: OrderedDict[tuple[str, str, str], str] = OrderedDict()

    def first(self, live: ctrlhost.Object, version: str | None = None) -> bool:
        """Return whether this is the first report about this version of the object, by default that of the server."""
        key, version = _key(live), version or live.resource_version
        with self._lock:
            if self._seen.get(key) == version:
                return False
            self._seen[key] = version
            self._seen.move_to_end(key)
            if len(self._seen) > _MAX_REPORTS:
                self._seen.popitem(last=False)
            return True

    def forget(self, live: ctrlhost.Object) -> None:
        """Make the next report about the object the first one."""
        with self._lock:
            self._seen.pop(_key(live), None)


def _key(live: ctrlhost.Object) -> tuple[str, str, str]:
    return live.kind, live.namespace, live.name
