"""The delivery of changes to a handler written in Python: its callbacks, and what calls them for one part."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost.cache import DeletedFinalStateUnknown
from ctrlhost.errors import Closed

if TYPE_CHECKING:
    from ctrlhost._core import Listener, Signal
    from ctrlhost.entries import Entry
    from ctrlhost.informers.callback_metrics import HandlerMetrics

log = logging.getLogger(__name__)

OnAdd = Callable[[Any, bool], None]
OnUpdate = Callable[[Any, Any], None]
OnDelete = Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class Callbacks:
    """The callbacks of one handler; None skips those notifications."""

    name: str
    on_add: OnAdd | None = None
    on_update: OnUpdate | None = None
    on_delete: OnDelete | None = None
    passes: Callable[[Any], bool] | None = None

    def call(self, kind: str, old: Any, new: Any, is_initial: bool) -> None:
        """Call the callback for one notification."""
        if kind == "add":
            if self.on_add is not None:
                self.on_add(new, is_initial)
        elif kind == "update":
            if self.on_update is not None:
                self.on_update(old, new)
        elif self.on_delete is not None:
            self.on_delete(old)


@dataclass(frozen=True, slots=True, eq=False)
class Delivery:
    """Calls one handler for the changes of one part of an informer: a source of the thread that calls it."""

    callbacks: Callbacks
    listener: Listener
    metrics: HandlerMetrics
    entry: Entry

    @property
    def closed(self) -> bool:
        """Whether the handler was removed."""
        return self.listener.closed

    def wake(self, signal: Signal) -> None:
        """Raise `signal` whenever there are notifications, and when the handler is removed."""
        self.listener.wake(signal)

    def deliver(self) -> bool:
        """Deliver a batch of notifications, as long as the handler is not removed; False if there was none."""
        try:
            batch = self.listener.next(0)
        except Closed:
            return False
        try:
            for kind, old, new, is_initial in batch:
                if self.listener.closed:
                    return False
                subject = new if new is not None else old
                self._deliver(str(getattr(subject, "key", subject)), kind, old, new, is_initial)
        finally:
            self.listener.done()
        return bool(batch)

    def _deliver(self, key: str, kind: str, old: Any, new: Any, is_initial: bool) -> None:
        try:
            self.entry.begin(key)
            self.metrics.call(self._call, kind, old, new, is_initial)
        except BaseException:  # The handler may even call sys.exit; the others must still run.
            log.exception("handler %s failed on %s of %s", self.callbacks.name, kind, key)
        finally:
            self.entry.end()

    def _call(self, kind: str, old: Any, new: Any, is_initial: bool) -> None:
        """Call filter and callback for one notification, as long as the handler is not removed."""
        passes = self.callbacks.passes
        if passes is not None:
            before = _passes(passes, old)
            after = not self.closed and _passes(passes, new)
            if self.closed or not (before or after):
                return
            if kind == "update" and before != after:
                kind = "delete" if before else "add"
        self.callbacks.call(kind, old, new, is_initial)


def _passes(passes: Callable[[Any], bool], obj: Any) -> bool:
    """Apply a filter to an object, or to the last known state of a tombstone; a tombstone without one passes."""
    if isinstance(obj, DeletedFinalStateUnknown):
        return obj.object is None or passes(obj.object)
    return obj is not None and passes(obj)
