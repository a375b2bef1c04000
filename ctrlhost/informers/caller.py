"""Calls of the functions of one plugin: one thread for its handlers, maps and predicates, one for its index functions.

A thread of an informer never calls them. It notes what has changed, and wakes the thread of the plugin, so that a
function that hangs holds up nobody but its own plugin.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from ctrlhost import _core
from ctrlhost.entries import Entries
from ctrlhost.informers.callback_metrics import FunctionMetrics, Use, handler_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.entries import Entry

log = logging.getLogger(__name__)

#: The changes that wait for a handler: at most so many, or so many for each object of the informer.
BUFFER_LIMIT = 100_000
BUFFER_PER_OBJECT = 2
#: The deadlines after which a call that has not returned makes the plugin fail.
FATAL_DEADLINES = 6

_here = threading.local()
"""Has `calls_functions` in the threads of callers."""


class Source(Protocol):
    """What a thread delivers: the changes for a handler, or those for an index."""

    @property
    def closed(self) -> bool:
        """Whether nothing more will come."""

    def wake(self, signal: _core.Signal, /) -> None:
        """Raise `signal` whenever there is something to deliver, and when the source is closed."""

    def deliver(self) -> bool:
        """Call the function for some changes; return whether there were any."""


class Handler(Protocol):
    """A handler of an informer, which a caller removes when its plugin stops."""

    @property
    def active(self) -> bool:
        """Whether it was not removed."""

    def remove(self) -> None:
        """Remove it."""


class CallbackThread:
    """One thread, which exists while it has sources. All methods may be called from any thread.

    The thread does not keep it alive: running informers do that. So what was never started, and is kept only by its own
    functions, is freed, and the thread ends.
    """

    def __init__(self, name: str, entries: Entries) -> None:
        """Prepare; `name` is that of the thread, and `entries` watch its calls."""
        self._name = name
        self._entries = entries
        self._opened: dict[tuple[str, str], Entry] = {}
        self._signal = _core.Signal()
        self._lock = threading.Lock()
        self._sources: tuple[Source, ...] = ()
        self._stopped = False
        self._thread: threading.Thread | None = None
        weakref.finalize(self, self._signal.set).atexit = False

    def entry(self, use: str, controller: str) -> Entry:
        """Return the entry for calls of one use for a controller."""
        with self._lock:
            entry = self._opened.get((use, controller))
            if entry is None:
                entry = self._entries.open(use, controller=controller, fatal=FATAL_DEADLINES)
                if self._stopped:
                    # Nothing will be called.
                    entry.close()
                else:
                    self._opened[use, controller] = entry
            return entry

    def add(self, source: Source) -> None:
        """Deliver what a source has, from now until it is closed."""
        with self._lock:
            self._sources = (*self._sources, source)
            if self._thread is None and not self._stopped:
                run = partial(_deliver_all, weakref.ref(self), self._signal)
                thread = threading.Thread(target=run, name=self._name, daemon=True)
                thread.start()
                self._thread = thread
        source.wake(self._signal)

    def stop(self) -> None:
        """End the thread after the running call; what is buffered is dropped."""
        with self._lock:
            self._stopped = True
            if self._thread is None:
                self._close_entries()
        self._signal.set()

    def join(self, timeout: float) -> bool:
        """Wait for the end of the thread; return whether it has ended within `timeout` seconds."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)
            return not thread.is_alive()
        return True

    def deliver(self) -> bool:
        """Deliver what the sources have; False if the thread has to end. The thread calls it."""
        with self._lock:
            self._sources = tuple(source for source in self._sources if not source.closed)
            if self._stopped or not self._sources:
                self._thread = None
                if self._stopped:
                    self._close_entries()
                return False
        # One batch per source in turn, so that a backlog of one does not block the others, nor those added since.
        busy = True
        while busy and not self._stopped:
            delivered = [self._deliver(source) for source in self._sources]
            busy = any(delivered)
        return True

    def _deliver(self, source: Source) -> bool:
        try:
            return source.deliver()
        except BaseException:
            # What a function raises is logged where it is called. Whatever comes here must not end the thread.
            log.exception("%s: delivering changes failed; continuing", self._name)
            return True

    def _close_entries(self) -> None:
        for entry in self._opened.values():
            entry.close()
        self._opened = {}


def _deliver_all(reference: weakref.ref[CallbackThread], signal: _core.Signal) -> None:
    _here.calls_functions = True
    while True:
        signal.wait()
        # Kept only while it works.
        callbacks = reference()
        if callbacks is None or not callbacks.deliver():
            return
        del callbacks


class Caller:
    """Calls the functions of one plugin. All methods may be called from any thread."""

    def __init__(self, name: str, entries: Entries | None = None) -> None:
        """Prepare the threads `NAME/callbacks` and `NAME/indexes`, which start when they are needed."""
        self.name = name
        self.entries = entries or Entries(name)
        self.callbacks = CallbackThread(f"{name}/callbacks", self.entries)
        self.indexes = CallbackThread(f"{name}/indexes", self.entries)
        self._lock = threading.Lock()
        self._stopped = False
        self._handlers: list[Handler] = []
        self._indexed: list[Callable[[], None]] = []

    def owns_handler(self, handler: Handler) -> None:
        """Remove a handler when this stops, unless it was removed before; at once if this has stopped."""
        with self._lock:
            stopped = self._stopped
            if not stopped:
                self._handlers = [*(known for known in self._handlers if known.active), handler]
        if stopped:
            handler.remove()

    def owns_indexes(self, remove: Callable[[], None]) -> None:
        """Call `remove`, which removes indexes of a shared informer, when this stops; at once if this has stopped."""
        with self._lock:
            stopped = self._stopped
            if not stopped:
                self._indexed.append(remove)
        if stopped:
            remove()

    def watched(self, use: Use, value: Any, metrics: list[FunctionMetrics], controller: str = "") -> Any:
        """Wrap a function so that its calls are watched and counted, and append its metrics.

        Anything else, such as a mapping that is data, is returned unchanged.
        """
        ready = (_core.Predicate, _core.Owner, _core.ByLabel, _core.ByIndex, _core.CallbackMetrics, _core.Deferred)
        if not callable(value) or isinstance(value, ready):
            return value
        thread = self.indexes if use == "index" else self.callbacks
        counts = _core.CallbackMetrics(value, thread.entry(use, controller))
        metrics.append(FunctionMetrics(use, handler_name(value), counts))
        return counts

    def index_function(self, function: Any, metrics: list[FunctionMetrics]) -> Any:
        """Return an index function that the thread for indexes calls; a path is returned unchanged."""
        if not callable(function) or function is _core.namespace_index:
            return function
        return _core.Deferred(self.watched("index", function, metrics), self.indexes.add)

    def full(self, what: str) -> Callable[[], None]:
        """Return what a full buffer calls: the plugin fails, since changes were dropped."""

        def fail() -> None:
            log.error("%s: callback buffer of %s is full; its handler is removed", self.name, what)
            self.entries.fail(f"callback buffer of {what} is full: its function is too slow, or hangs")

        return fail

    def transform(self, function: Any) -> tuple[Any, Callable[[], None]]:
        """Return a transform whose calls are watched, and a function that ends that.

        It holds up its informer, which belongs to the plugin alone. So the plugin fails at the first deadline.
        """
        if function is None:
            return None, lambda: None
        entry = self.entries.open("transform", fatal=1)

        def watched(obj: Any) -> Any:
            entry.begin(obj.key)
            try:
                return function(obj)
            finally:
                entry.end()

        return watched, entry.close

    def stop(self, timeout: float) -> bool:
        """Remove what the plugin added to informers that others share, and end both threads.

        Return whether the running calls have returned within `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        with self._lock:
            self._stopped = True
            handlers, self._handlers = self._handlers, []
            indexed, self._indexed = self._indexed, []
        for handler in handlers:
            handler.remove()
        for remove in indexed:
            remove()
        threads = (self.callbacks, self.indexes)
        for thread in threads:
            thread.stop()
        ended = [thread.join(max(deadline - time.monotonic(), 0.0)) for thread in threads]
        return all(ended)


def in_callback() -> bool:
    """Return whether the caller is a handler, or another function that a plugin's thread or an informer calls."""
    return getattr(_here, "calls_functions", False) or _core.in_callback()
