"""An informer that shows part of a wider one, without a watch or a cache of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ctrlhost.informers.indexers import ViewIndexer
from ctrlhost.informers.informer import Informer
from ctrlhost.informers.lister import Lister
from ctrlhost.reflector.reflector import NO_PERMISSION

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.informers.namespace_informer import Scope
    from ctrlhost.informers.narrowing import Selection
    from ctrlhost.reflector.status import InformerStatus


class View(Informer):
    """An informer over the objects of `wide` that `selection` selects; it starts and stops with `wide`."""

    def __init__(self, scope: Scope, key: str, wide: Informer, selection: Selection) -> None:
        """Read from `wide`, which the factory counts as used by this."""
        parts, caller, owners = wide._parts, wide.caller, wide.owners  # noqa: SLF001 - the same class
        super().__init__(scope, key, parts, wide.client, wide.clock, wide.follower, caller=caller, owners=owners)
        self.wide = wide
        self.selection = selection
        self.indexer = ViewIndexer(wide.indexer, selection, key)
        self.lister = Lister(self.indexer)

    def _narrowed(self, filter: Callable[[Any], bool] | None) -> Callable[[Any], bool]:  # noqa: A002 - as in add_handler
        selects = self.selection.selects
        return selects if filter is None else lambda obj: selects(obj) and filter(obj)

    def _within(self, predicates: list[Any]) -> list[Any]:
        return [self.selection.within(predicates)]

    def covers(self, namespace: str) -> bool:
        """Return whether objects of a namespace belong to it at present."""
        chosen = self.selection.namespaces
        return (chosen is None or not namespace or namespace in chosen) and self.wide.covers(namespace)

    @property
    def reason(self) -> str:
        """The reason for which the wider informer waits or reconnects; a missing permission is one for that."""
        reason = super().reason
        return f"{reason} (for {self.wide.key})" if reason.startswith(NO_PERMISSION) else reason

    def status(self) -> InformerStatus:
        """Return the status of the wider informer, with the number of selected objects."""
        return replace(super().status(), objects=len(self.indexer), bytes=0)

    def start(self) -> None:
        """Start the wider informer."""
        self.wide.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Remove the handlers; the wider informer continues for its other users."""
        del timeout
        self.stopped = True
        for handle in self._handles:
            handle.remove()
