"""Following which namespaces there are, for an informer that wants those with certain names or labels."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Protocol

from ctrlhost.cache import DeletedFinalStateUnknown

if TYPE_CHECKING:
    from ctrlhost.informers.dispatcher import OnAdd, OnDelete, OnUpdate
    from ctrlhost.informers.handle import Handle
    from ctrlhost.informers.namespace_informers import Parts
    from ctrlhost.reflector.status import State
    from ctrlhost.selectors.namespaces import NamespaceSelector


class NamespaceSource(Protocol):
    """What is read of the informer of namespaces."""

    @property
    def has_synced(self) -> bool:
        """Whether the first list is in its cache."""

    @property
    def state(self) -> State:
        """What it is doing."""

    @property
    def reason(self) -> str:
        """Why it does not watch."""

    def add_handler(self, on_add: OnAdd, on_update: OnUpdate, on_delete: OnDelete, *, name: str) -> Handle:
        """Call the functions with each change of a namespace."""

    def release(self) -> None:
        """Give the informer back."""


class Following:
    """Keeps the parts of one informer equal to the namespaces that its selector chooses."""

    def __init__(self, selector: NamespaceSelector, namespaces: NamespaceSource, parts: Parts) -> None:
        """Hear of all namespaces from `namespaces`, which the factory counts as used by this."""
        self.namespaces = namespaces
        self._selector = selector
        self._parts = parts
        self._lock = threading.Lock()
        self._chosen: dict[str, None] = {}
        self._complete = False
        self._handle = namespaces.add_handler(
            on_add=lambda obj, _: self._changed(obj),
            on_update=lambda _, obj: self._changed(obj),
            on_delete=self._gone,
            name=f"namespaces {selector}",
        )

    @property
    def complete(self) -> bool:
        """Whether all namespaces that there are were looked at; never false again afterwards."""
        if not self._complete:
            self._complete = self.namespaces.has_synced and self._handle.has_synced
        return self._complete

    @property
    def state(self) -> tuple[State, str]:
        """What the informer of namespaces does, and why it does not watch."""
        state, reason = self.namespaces.state, self.namespaces.reason
        return state, f"namespaces: {reason}" if reason else ""

    def stop(self) -> None:
        """Follow no more; the parts stay as they are."""
        self._handle.remove()

    def _changed(self, namespace: Any) -> None:
        self._set(namespace.name, chosen=self._selector.selects(namespace.name, namespace.labels))

    def _gone(self, namespace: Any) -> None:
        name = namespace.key if isinstance(namespace, DeletedFinalStateUnknown) else namespace.name
        self._set(name, chosen=False)

    def _set(self, name: str, *, chosen: bool) -> None:
        with self._lock:
            if chosen == (name in self._chosen):
                return
            if chosen:
                self._chosen[name] = None
            else:
                del self._chosen[name]
            now = tuple(self._chosen)
        self._parts.set(now)
