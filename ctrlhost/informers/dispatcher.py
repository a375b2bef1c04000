"""Calls handlers written in Python: one thread per informer, however many handlers it has, while there is news.

Of a thread for all informers the handlers of one would keep those of all others waiting, whoever wrote them.
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
    from ctrlhost.informers.callback_metrics import HandlerCost

log = logging.getLogger(__name__)

_IDLE = 1.0
"""Seconds after which a thread ends that has nothing to do; the next change starts another one."""

OnAdd = Callable[[Any, bool], None]
OnUpdate = Callable[[Any, Any], None]
OnDelete = Callable[[Any], None]


@dataclass(frozen=True, slots=True)
class Callbacks:
    """What one handler wants to hear of; None is nothing."""

    name: str
    on_add: OnAdd | None = None
    on_update: OnUpdate | None = None
    on_delete: OnDelete | None = None
    passes: Callable[[Any], bool] | None = None

    def call(self, kind: str, old: Any, new: Any, is_initial: bool) -> None:
        """Hand one notification to the function that wants it."""
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
    """One handler at work."""

    callbacks: Callbacks
    listener: Listener
    #: Held while a callback runs, so that somebody can wait for its end.
    running: threading.Lock
    cost: HandlerCost


class Dispatcher:
    """Takes notifications from the listeners of one informer in turn, in a thread that is there when there are any."""

    def __init__(self, name: str, idle: float = _IDLE) -> None:
        """Name the thread, and say after how many seconds without news it ends."""
        self._name = name
        self._idle = idle
        self._registrations: list[Registration] = []
        self._changed = threading.Condition()
        self._news = False
        self._delivering = False
        self._stopped = False
        self._thread: threading.Thread | None = None

    def add(self, callbacks: Callbacks, listener: Listener, cost: HandlerCost) -> Registration:
        """Call a handler with what its listener buffers, from now on, and count in `cost`."""
        registration = Registration(callbacks, listener, threading.Lock(), cost)
        with self._changed:
            self._registrations = [*self._registrations, registration]
        self.wake()
        return registration

    def remove(self, registration: Registration, *, wait: bool = False) -> None:
        """Call a handler no more; what is buffered for it is dropped. With `wait`, its running callback ends first.

        Waiting from inside that callback would wait for itself, so there it does not.
        """
        registration.listener.close()
        with self._changed:
            self._registrations = [each for each in self._registrations if each is not registration]
        if wait and threading.current_thread() is not self._thread:
            with registration.running:
                pass

    def wake(self) -> None:
        """Say that there may be notifications. Costs next to nothing without handlers."""
        if self._registrations:
            with self._changed:
                self._news = True
                if self._thread is None and not self._stopped:
                    thread = threading.Thread(target=self._run, name=f"handlers {self._name}", daemon=True)
                    thread.start()
                    self._thread = thread
                else:
                    self._changed.notify()

    @property
    def merged(self) -> int:
        """How many notifications were merged into others, since a handler was slower than the changes."""
        return sum(each.listener.merged for each in self._registrations)

    @property
    def pending(self) -> int:
        """How many notifications wait for handlers, one more while any is being delivered."""
        waiting = sum(each.listener.pending for each in self._registrations)
        return waiting + int(self._news or self._delivering)

    def stop(self, timeout: float | None = None) -> None:
        """End the thread after the callback that runs; what is buffered is dropped."""
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
                if not self._changed.wait_for(lambda: self._news or self._stopped, self._idle):
                    self._thread = None
                    return
                self._news, self._delivering = False, True
                if self._stopped:
                    return
                registrations = self._registrations
            # A batch from each in turn: one that has fallen behind does not keep the others from theirs.
            busy = list(registrations)
            while busy and not self._stopped:
                busy = [each for each in busy if self._deliver(each)]
            self._delivering = False

    def _deliver(self, registration: Registration) -> bool:
        """Hand one batch to a handler; False if nothing was there for it."""
        try:
            batch = registration.listener.next(0)
        except CtrlhostError:
            # It was closed, in whose removal this registration goes too.
            return False
        if not batch:
            return False
        for kind, old, new, is_initial in batch:
            with registration.running:
                if self._stopped or registration not in self._registrations:
                    return False
                try:
                    registration.cost.call(registration.callbacks.call, kind, old, new, is_initial)
                except BaseException:  # the handler is somebody else's, even its sys.exit; the next one is still due
                    subject = new if new is not None else old
                    key = getattr(subject, "key", subject)
                    log.exception("handler %s failed on %s of %s", registration.callbacks.name, kind, key)
        return True


def _passes(passes: Callable[[Any], bool], obj: Any) -> bool:
    """Ask the filter about an object; of a tombstone about what it last was, and one that knows nothing passes."""
    if isinstance(obj, DeletedFinalStateUnknown):
        return obj.object is None or passes(obj.object)
    return obj is not None and passes(obj)
