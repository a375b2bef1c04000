"""The versions of objects that the writes of one host made, so that their events are known as its own."""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.client.target import Write

#: The versions that are remembered. Their events come within a second.
_MAX = 4096


#: Called with each write that changed something, on the thread or in the task of a reconcile.
changed_by_run: ContextVar[Callable[[Write], None] | None] = ContextVar("ctrlhost_changed_by_run", default=None)


class Writer(NamedTuple):
    """The field manager of a write, and its verb."""

    field_manager: str
    verb: str


class WrittenVersions:
    """The last versions that the plugins of one host wrote. Methods may be called from any thread."""

    def __init__(self) -> None:
        """Start empty."""
        self._lock = threading.Lock()
        self._writers: OrderedDict[tuple[str, str], tuple[str, str]] = OrderedDict()

    def wrote(self, write: Write) -> bool:
        """Remember the version that a write made; return False if that was known, so that nothing changed."""
        metadata = write.object.get("metadata") or {}
        uid, version = metadata.get("uid"), metadata.get("resourceVersion", "")
        if write.object.get("kind") == "Status":
            uid, version = (write.object.get("details") or {}).get("uid"), ""
        if not uid:
            return True
        with self._lock:
            if (uid, version) in self._writers:
                return False
            self._writers[uid, version] = (write.field_manager, write.verb)
            if len(self._writers) > _MAX:
                self._writers.popitem(last=False)
        return True

    def writer(self, uid: str, version: str) -> Writer | None:
        """Return who wrote this version of the object of a uid, empty for its deletion; None if it was nobody here."""
        writer = self._writers.get((uid, version))
        return None if writer is None else Writer(*writer)
