"""One handler on all parts of an informer, and the thread that calls its functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from ctrlhost.informers import caller as callers

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost._core import Listener, SharedInformer
    from ctrlhost.informers.caller import Caller, Source
    from ctrlhost.informers.namespace_informer import NamespaceInformer
    from ctrlhost.informers.namespace_informers import NamespaceInformers, PartFollower

#: What adding to an engine returns: a listener and what delivers from it, or the number of a native handler and None.
Added: TypeAlias = "tuple[Listener | int, Source | None]"


class Handler:
    """Adds itself to each part, present and future. Methods may be called from any thread."""

    def __init__(
        self,
        parts: NamespaceInformers,
        name: str,
        caller: Caller,
        add: Callable[[SharedInformer, dict[str, Any]], Added],
    ) -> None:
        """Prepare; `add` adds the handler to an engine, with these options of a buffer, and `caller` calls it."""
        self.caller = caller
        self._parts = parts
        self._add = add
        self._name = name
        self._listeners: dict[NamespaceInformer, Listener] = {}
        self._follower: PartFollower | None = None
        self._on_remove: Callable[[], None] = lambda: None

    def on_remove(self, function: Callable[[], None]) -> None:
        """Call `function` when the handler is removed."""
        self._on_remove = function

    def attach(self) -> None:
        """Add the handler to the parts."""
        self._follower = self._parts.attach(self._add_to)

    def remove(self, wait: bool) -> None:
        """Remove the handler; with `wait`, wait for a running call, unless this is a callback."""
        self._on_remove()
        if self._follower is not None:
            self._parts.detach(self._follower, wait)

    @property
    def has_synced(self) -> bool:
        """Whether the functions were called for the first lists of all parts."""
        known = [self._listeners.get(part) for part in self._parts.now]
        return all(listener is None or listener.has_synced for listener in known)

    @property
    def pending(self) -> int:
        """The number of notifications that its functions have not processed."""
        return sum(listener.pending for listener in list(self._listeners.values()))

    def _add_to(self, part: NamespaceInformer) -> Callable[[bool], None]:
        engine = part.engine
        limits = callers.BUFFER_LIMIT, callers.BUFFER_PER_OBJECT
        listener, source = self._add(engine, {"limits": limits, "full": self.caller.full(self._name)})
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
