"""Follows the namespaces of the cluster, for an informer that selects them by name or label."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Protocol

from ctrlhost.cache import DeletedFinalStateUnknown

if TYPE_CHECKING:
    from ctrlhost.informers.caller import Caller
    from ctrlhost.informers.delivery import OnAdd, OnDelete, OnUpdate
    from ctrlhost.informers.handle import Handle
    from ctrlhost.informers.namespace_informers import NamespaceInformers
    from ctrlhost.reflector.status import State
    from ctrlhost.selectors.namespaces import NamespaceSelector


class _Namespaces(Protocol):
    """The part of the informer of namespaces that is used here."""

    @property
    def has_synced(self) -> bool: ...
    @property
    def state(self) -> State: ...
    @property
    def reason(self) -> str: ...
    def add_handler(
        self, on_add: OnAdd, on_update: OnUpdate, on_delete: OnDelete, *, name: str, caller: Caller
    ) -> Handle: ...
    def release(self) -> None: ...


class NamespaceFollower:
    """Keeps the parts of one informer equal to the namespaces that its selector selects."""

    def __init__(
        self, selector: NamespaceSelector, namespaces: _Namespaces, parts: NamespaceInformers, caller: Caller
    ) -> None:
        """Watch all namespaces through `namespaces`, which the factory counts as used by this, on `caller`."""
        self.namespaces = namespaces
        self._selector = selector
        self._parts = parts
        self._lock = threading.Lock()
        self._selected: dict[str, None] = {}
        self._complete = False
        self._handle = namespaces.add_handler(
            on_add=lambda obj, _: self._changed(obj),
            on_update=lambda _, obj: self._changed(obj),
            on_delete=self._gone,
            name=f"namespaces {selector}",
            caller=caller,
        )

    @property
    def complete(self) -> bool:
        """Whether the first list of namespaces was processed; once true, it stays true."""
        if not self._complete:
            self._complete = self.namespaces.has_synced and self._handle.has_synced
        return self._complete

    @property
    def state(self) -> tuple[State, str]:
        """The state of the informer of namespaces, and why it is not watching."""
        state, reason = self.namespaces.state, self.namespaces.reason
        return state, f"namespaces: {reason}" if reason else ""

    def stop(self) -> None:
        """Stop following; the parts stay as they are."""
        self._handle.remove()

    def _changed(self, namespace: Any) -> None:
        self._set(namespace.name, selected=self._selector.selects(namespace.name, namespace.labels))

    def _gone(self, namespace: Any) -> None:
        name = namespace.key if isinstance(namespace, DeletedFinalStateUnknown) else namespace.name
        self._set(name, selected=False)

    def _set(self, name: str, *, selected: bool) -> None:
        with self._lock:
            if selected == (name in self._selected):
                return
            if selected:
                self._selected[name] = None
            else:
                del self._selected[name]
            now = tuple(self._selected)
        self._parts.set(now)
