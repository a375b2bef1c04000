"""A narrower informer that is a view of a wider one: no watch and no cache of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ctrlhost.informers.informer import Informer
from ctrlhost.informers.lister import Lister

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Iterable, Mapping

    from ctrlhost.cache import Indexer, Object
    from ctrlhost.informers.dispatcher import OnAdd, OnDelete, OnUpdate
    from ctrlhost.informers.handle import Handle
    from ctrlhost.informers.lister import UnionIndexer
    from ctrlhost.informers.part import Scope
    from ctrlhost.informers.selection import Selection
    from ctrlhost.informers.status import InformerStatus


class ViewIndexer:
    """The chosen part of an indexer. Its indexes are kept in the wider one, under names of their own."""

    def __init__(self, wide: Indexer | UnionIndexer | ViewIndexer, selection: Selection, name: str) -> None:
        """Read from `wide` what `selection` chooses."""
        self._wide = wide
        self._selection = selection
        self._suffix = f" of {name}"

    def _name(self, name: str) -> str:
        return name if name == "namespace" else name + self._suffix

    def _chosen(self, objects: Iterable[Object]) -> builtins.list[Object]:
        return [each for each in objects if self._selection.selects(each)]

    def add_indexers(self, indexers: Mapping[str, Callable[[Object], Iterable[str] | None]]) -> None:
        """Add index functions."""
        self._wide.add_indexers({self._name(name): function for name, function in indexers.items()})

    def get_by_key(self, key: str) -> Object | None:
        """Give the object of a key, None if there is none."""
        found = self._wide.get_by_key(key)
        return found if found is not None and self._selection.selects(found) else None

    def get(self, obj: Any) -> Object | None:
        """Give the object that has the same key."""
        found = self._wide.get(obj)
        return found if found is not None and self._selection.selects(found) else None

    def list(self) -> builtins.list[Object]:
        """Give all objects."""
        namespaces = self._selection.namespaces
        if namespaces is None:
            return self._chosen(self._wide.list())
        return [each for one in namespaces for each in self._chosen(self._wide.by_index("namespace", one))]

    def list_keys(self) -> builtins.list[str]:
        """Give all keys."""
        return [each.key for each in self.list()]

    def index(self, name: str, obj: Any) -> builtins.list[Object]:
        """Give the objects that share a value of the index with `obj`."""
        return self._chosen(self._wide.index(self._name(name), obj))

    def by_index(self, name: str, value: str) -> builtins.list[Object]:
        """Give the objects that the index has under a value; KeyError for an unknown index."""
        return self._chosen(self._wide.by_index(self._name(name), value))

    def index_keys(self, name: str, value: str) -> builtins.list[str]:
        """Give their keys."""
        return [each.key for each in self.by_index(name, value)]

    def list_index_func_values(self, name: str) -> builtins.list[str]:
        """Give all values that the index has."""
        values = self._wide.list_index_func_values(self._name(name))
        return [value for value in values if self.by_index(name, value)]

    def __len__(self) -> int:
        """Count the objects."""
        return len(self.list())


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
