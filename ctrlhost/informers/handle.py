"""Handles: one handler on all parts of an informer, and the thread that calls its functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from ctrlhost.informers import caller as callers
from ctrlhost.informers.namespace_informers import PartFollower

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost._core import Listener, SharedInformer
    from ctrlhost.informers.callback_metrics import FunctionMetrics
    from ctrlhost.informers.caller import Caller, Source
    from ctrlhost.informers.namespace_informer import NamespaceInformer
    from ctrlhost.informers.namespace_informers import NamespaceInformers

#: What adding to an engine returns: a listener and what delivers from it, or the number of a native handler and None.
Added: TypeAlias = "tuple[Listener | int, Source | None]"


class Handle(PartFollower):
    """Registration of one handler with one informer, as client-go's `ResourceEventHandlerRegistration`.

    It adds the handler to each part, present and future. All methods may be called from any thread.
    """

    def __init__(
        self,
        parts: NamespaceInformers,
        name: str,
        key: str,
        caller: Caller,
        add: Callable[[SharedInformer, dict[str, Any]], Added],
        listed: Callable[[], bool],
        callback_metrics: tuple[FunctionMetrics, ...] = (),
        *,
        fills_queue: bool = False,
        on_remove: Callable[[], None] = lambda: None,
    ) -> None:
        """Add the handler; called by `Informer.add_handler` and `Informer.enqueue_to`.

        `add` adds it to an engine, with these options of a buffer, and `caller` calls it; `key` is its name in messages
        of that. `listed` returns whether the informer has its first list.
        """
        super().__init__(self._add_to)
        self.name = name
        self.caller = caller
        #: Whether the handler adds requests to a queue.
        self.fills_queue = fills_queue
        #: One entry per Python function of the handler.
        self.callback_metrics = callback_metrics
        self._parts = parts
        self._key = key
        self._add_to_engine = add
        self._listed = listed
        self._on_remove = on_remove
        self._listeners: dict[NamespaceInformer, Listener] = {}
        self._ended = False
        parts.attach(self)

    @property
    def owner(self) -> str:
        """The plugin whose threads call the functions; "factory" and "informers" are the host's own."""
        return self.caller.name

    @property
    def has_synced(self) -> bool:
        """Whether the handler has processed the whole first list."""
        known = [self._listeners.get(part) for part in self._parts.now]
        return self._listed() and all(listener is None or listener.has_synced for listener in known)

    @property
    def pending(self) -> int:
        """The number of notifications that its functions have not processed."""
        return sum(listener.pending for listener in list(self._listeners.values()))

    @property
    def active(self) -> bool:
        """Whether the handler was not removed."""
        return not self._ended

    def remove(self, *, wait: bool = False) -> None:
        """Stop notifying the handler: no call of its functions begins after this has returned.

        May be repeated, and tried again if it raised. A call that another thread has begun may still run; with `wait`
        this waits for it, except in a callback of any handler, a map, a predicate or an index function. RuntimeError in
        a forked child.
        """
        self._on_remove()
        self._parts.detach(self, wait)
        self._ended = True

    def _add_to(self, part: NamespaceInformer) -> Callable[[bool], None]:
        engine = part.engine
        limits = callers.BUFFER_LIMIT, callers.BUFFER_PER_OBJECT
        listener, source = self._add_to_engine(engine, {"limits": limits, "full": self.caller.full(self._key)})
        if source is None or isinstance(listener, int):
            return lambda _: engine.remove_handler(listener)
        self._listeners[part] = listener
        self.caller.callbacks.add(source)

        def remove(wait: bool) -> None:
            self._listeners.pop(part, None)
            engine.remove_handler(listener)
            if wait and not callers.in_callback():
                listener.wait()

        return remove
