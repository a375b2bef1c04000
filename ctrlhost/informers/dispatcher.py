"""Calls of handlers written in Python: one thread per informer, which exists while there are notifications.

With one thread for all informers, the handlers of one would block those of the others.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost.cache import DeletedFinalStateUnknown
from ctrlhost.errors import CtrlhostError

if TYPE_CHECKING:
    from ctrlhost._core import Listener
    from ctrlhost.informers.callback_metrics import HandlerMetrics

log = logging.getLogger(__name__)

_IDLE = 1.0
"""Seconds after which an idle thread ends; the next change starts another one."""

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
        if self.passes is not None:
            before, after = _passes(self.passes, old), _passes(self.passes, new)
            if not before and not after:
                return
            if kind == "update" and before != after:
                kind = "delete" if before else "add"
        if kind == "add":
            if self.on_add is not None:
                self.on_add(new, is_initial)
        elif kind == "update":
            if self.on_update is not None:
                self.on_update(old, new)
        elif self.on_delete is not None:
            self.on_delete(old)


@dataclass(slots=True, eq=False)
class Registration:
    """One registered handler."""

    callbacks: Callbacks
    listener: Listener
    #: Held while a callback runs, so that `remove` can wait for its end.
    running: threading.Lock
    metrics: HandlerMetrics


class Dispatcher:
    """Delivers notifications from the listeners of one informer in turn. All methods may be called from any thread."""

    def __init__(self, name: str, idle: float = _IDLE) -> None:
        """Prepare; the thread is named `handlers NAME` and ends after `idle` seconds without notifications."""
        self._name = name
        self._idle = idle
        self._registrations: list[Registration] = []
        self._changed = threading.Condition()
        self._woken = False
        self._delivering = False
        self._stopped = False
        self._thread: threading.Thread | None = None

    def add(self, callbacks: Callbacks, listener: Listener, metrics: HandlerMetrics) -> Registration:
        """Deliver the notifications of `listener` to a handler from now on, and count the calls in `metrics`."""
        registration = Registration(callbacks, listener, threading.Lock(), metrics)
        with self._changed:
            self._registrations = [*self._registrations, registration]
        self.wake()
        return registration

    def remove(self, registration: Registration, *, wait: bool = False) -> None:
        """Stop calling a handler and drop its buffered notifications; with `wait`, wait for its running callback.

        A call from inside that callback does not wait: it would wait for itself.
        """
        registration.listener.close()
        with self._changed:
            self._registrations = [each for each in self._registrations if each is not registration]
        if wait and threading.current_thread() is not self._thread:
            with registration.running:
                pass

    def wake(self) -> None:
        """Check for notifications; cheap without handlers."""
        if self._registrations:
            with self._changed:
                self._woken = True
                if self._thread is None and not self._stopped:
                    thread = threading.Thread(target=self._run, name=f"handlers {self._name}", daemon=True)
                    thread.start()
                    self._thread = thread
                else:
                    self._changed.notify()

    @property
    def merged(self) -> int:
        """The number of notifications merged into others because a handler was slow."""
        return sum(each.listener.merged for each in self._registrations)

    @property
    def pending(self) -> int:
        """The number of notifications that wait for handlers, plus one while any is being delivered."""
        waiting = sum(each.listener.pending for each in self._registrations)
        return waiting + int(self._woken or self._delivering)

    def stop(self, timeout: float | None = None) -> None:
        """Stop the thread after the running callback; buffered notifications are dropped."""
        with self._changed:
            self._stopped = True
            registrations, self._registrations = self._registrations, []
            self._changed.notify()
        for registration in registrations:
            registration.listener.close()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._changed.wait_for(lambda: self._woken or self._stopped, self._idle):
                    self._thread = None
                    return
                self._woken, self._delivering = False, True
                if self._stopped:
                    return
                registrations = self._registrations
            # One batch per handler in turn, so that a backlog of one does not block the others.
            busy = list(registrations)
            while busy and not self._stopped:
                busy = [each for each in busy if self._deliver(each)]
            self._delivering = False

    def _deliver(self, registration: Registration) -> bool:
        """Deliver one batch to a handler; False if there was none."""
        try:
            batch = registration.listener.next(0)
        except CtrlhostError:
            # Closed: this registration is being removed.
            return False
        if not batch:
            return False
        for kind, old, new, is_initial in batch:
            with registration.running:
                if self._stopped or registration not in self._registrations:
                    return False
                try:
                    registration.metrics.call(registration.callbacks.call, kind, old, new, is_initial)
                except BaseException:  # The handler may even call sys.exit; the others must still run.
                    subject = new if new is not None else old
                    key = getattr(subject, "key", subject)
                    log.exception("handler %s failed on %s of %s", registration.callbacks.name, kind, key)
        return True


def _passes(passes: Callable[[Any], bool], obj: Any) -> bool:
    """Apply a filter to an object, or to the last known state of a tombstone; a tombstone without one passes."""
    if isinstance(obj, DeletedFinalStateUnknown):
        return obj.object is None or passes(obj.object)
    return obj is not None and passes(obj)
