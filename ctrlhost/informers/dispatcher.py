"""Calls of handlers written in Python: one thread per informer, which exists while there are notifications.

With one thread for all informers, the handlers of one would block those of the others.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost import _core
from ctrlhost.cache import DeletedFinalStateUnknown
from ctrlhost.errors import CtrlhostError

if TYPE_CHECKING:
    from ctrlhost._core import Listener
    from ctrlhost.informers.callback_metrics import HandlerMetrics

log = logging.getLogger(__name__)

_IDLE = 1.0
"""Seconds after which an idle thread ends; the next change starts another one."""

_here = threading.local()
"""Has `calls_handlers` in the threads of dispatchers."""

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


@dataclass(slots=True, eq=False)
class Registration:
    """One registered handler."""

    callbacks: Callbacks
    listener: Listener
    metrics: HandlerMetrics
    #: No callback begins once this is true. Both are set under the dispatcher's lock.
    removed: bool = False
    #: A callback runs.
    running: bool = False

    def call(self, kind: str, old: Any, new: Any, is_initial: bool) -> None:
        """Call filter and callback for one notification, as long as the handler is not removed."""
        passes = self.callbacks.passes
        if passes is not None:
            before = _passes(passes, old)
            after = not self.removed and _passes(passes, new)
            if self.removed or not (before or after):
                return
            if kind == "update" and before != after:
                kind = "delete" if before else "add"
        self.callbacks.call(kind, old, new, is_initial)


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
        registration = Registration(callbacks, listener, metrics)
        with self._changed:
            self._registrations = [*self._registrations, registration]
        self.wake()
        return registration

    def remove(self, registration: Registration, *, wait: bool = False) -> None:
        """Stop calling a handler, and drop its notifications; with `wait`, wait for a running callback.

        A callback does not wait, not even for one of another informer: two of them could wait for each other. May be
        repeated, also after an exception.
        """
        with self._changed:
            registration.removed = True
            self._registrations = [each for each in self._registrations if each is not registration]
        registration.listener.close()
        if wait and not in_callback():
            with self._changed:
                self._changed.wait_for(lambda: not registration.running)

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
                    self._changed.notify_all()

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
            self._changed.notify_all()
        for registration in registrations:
            registration.listener.close()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    def _run(self) -> None:
        _here.calls_handlers = True
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
            with self._changed:
                if self._stopped or registration.removed:
                    return False
                registration.running = True
            try:
                registration.metrics.call(registration.call, kind, old, new, is_initial)
            except BaseException:  # The handler may even call sys.exit; the others must still run.
                subject = new if new is not None else old
                key = getattr(subject, "key", subject)
                log.exception("handler %s failed on %s of %s", registration.callbacks.name, kind, key)
            finally:
                with self._changed:
                    registration.running = False
                    self._changed.notify_all()
        return True


def in_callback() -> bool:
    """Return whether the caller is a handler, or a function that an informer calls."""
    return getattr(_here, "calls_handlers", False) or _core.in_callback()


def _passes(passes: Callable[[Any], bool], obj: Any) -> bool:
    """Apply a filter to an object, or to the last known state of a tombstone; a tombstone without one passes."""
    if isinstance(obj, DeletedFinalStateUnknown):
        return obj.object is None or passes(obj.object)
    return obj is not None and passes(obj)
