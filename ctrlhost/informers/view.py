"""A narrower informer that is a view of a wider one: no watch and no cache of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.informers.indexers import ViewIndexer
from ctrlhost.informers.informer import Informer
from ctrlhost.informers.lister import Lister

if TYPE_CHECKING:
    from collections.abc import Callable

    from ctrlhost.informers.dispatcher import OnAdd, OnDelete, OnUpdate
    from ctrlhost.informers.handle import Handle
    from ctrlhost.informers.namespace_informer import Scope
    from ctrlhost.informers.narrowing import Selection
    from ctrlhost.reflector.status import InformerStatus


class View(Informer):
    """Hears of, and shows, what `selection` chooses of `wide`. It starts and stops with it."""

    def __init__(self, scope: Scope, key: str, wide: Informer, selection: Selection) -> None:
        """Look through `wide`, which the factory counts as used by this."""
        super().__init__(scope, key, wide._parts, wide.client, wide.clock, wide.following)  # noqa: SLF001 - it is one of them
        self.wide = wide
        self.selection = selection
        self.indexer = ViewIndexer(wide.indexer, selection, key)
        self.lister = Lister(self.indexer)

    def add_handler(
        self,
        on_add: OnAdd | None = None,
        on_update: OnUpdate | None = None,
        on_delete: OnDelete | None = None,
        *,
        filter: Callable[[Any], bool] | None = None,  # noqa: A002 - upstream's word
        resync: float | None = None,
        name: str | None = None,
        every_change: bool = False,
    ) -> Handle:
        """Call functions with each change of what is chosen; see `Informer.add_handler`."""
        selects = self.selection.selects
        passes = selects if filter is None else lambda obj: selects(obj) and filter(obj)
        return super().add_handler(
            on_add, on_update, on_delete, filter=passes, resync=resync, name=name, every_change=every_change
        )

    def _chosen(self, predicates: list[Any]) -> list[Any]:
        return [self.selection.within(predicates)]

    def covers(self, namespace: str) -> bool:
        """Tell whether objects of a namespace belong to it now."""
        chosen = self.selection.namespaces
        return (chosen is None or not namespace or namespace in chosen) and self.wide.covers(namespace)

    def status(self) -> InformerStatus:
        """Say how the wider informer is doing, and how much of it is chosen."""
        import dataclasses

        return dataclasses.replace(super().status(), objects=len(self.indexer), bytes=0)

    def start(self) -> None:
        """Start the wider informer."""
        self.wide.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Tell handlers nothing more; the wider informer goes on for its other users."""
        del timeout
        self.stopped = True
        for handle in self._handles:
            handle.remove()
