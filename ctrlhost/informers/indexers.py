"""Indexers over other indexers: the union of several, and a view of a selected part of one."""

from __future__ import annotations

import builtins
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ctrlhost.cache import Indexer, Object
    from ctrlhost.informers.narrowing import Selection

    #: Key, values or None, negated.
    Labels = Sequence[tuple[str, frozenset[str] | None, bool]]


class UnionIndexer:
    """Several indexers that hold different namespaces, read as one. Only reflectors add objects."""

    def __init__(self, indexers: Sequence[Indexer]) -> None:
        """Read from `indexers`."""
        self._indexers = indexers
        #: The indexers that get all index functions: those read now, and those that may be read later.
        self._known = builtins.list(indexers)
        self._lock = threading.Lock()
        self._added: dict[str, Callable[[Object], Iterable[str] | None]] = {}

    def add_indexers(self, indexers: Mapping[str, Callable[[Object], Iterable[str] | None]]) -> None:
        """Add index functions to all indexers, present and future; ValueError for a name that is taken."""
        with self._lock:
            taken = sorted(set(indexers) & {"namespace", *self._added})
            if taken:
                raise ValueError(f"indexer conflict: {taken}")
            self._added = {**self._added, **indexers}
            known = self._known
        # Without the lock, since this calls the functions for all objects.
        try:
            for indexer in known:
                indexer.add_indexers(indexers)
        except BaseException:
            with self._lock:
                self._added = {name: function for name, function in self._added.items() if name not in indexers}
            raise

    def remove_indexers(self, names: Sequence[str]) -> None:
        """Remove indexes from all indexers; unknown names are no error."""
        with self._lock:
            self._added = {name: function for name, function in self._added.items() if name not in names}
            known = self._known
        for indexer in known:
            indexer.remove_indexers(names)

    def prepare(self, indexer: Indexer) -> None:
        """Add the index functions of the others to an indexer that will be read later."""
        with self._lock:
            added = self._added
            self._known = [*self._known, indexer]
        if added:
            indexer.add_indexers(added)

    def forget(self, indexer: Indexer) -> None:
        """Add no further index functions to an indexer that is no longer read."""
        with self._lock:
            self._known = [known for known in self._known if known is not indexer]

    def adopt(self, indexers: Sequence[Indexer]) -> None:
        """Read from `indexers` from now on; new ones must have been prepared."""
        self._indexers = indexers

    def _with_index(self, name: str) -> Sequence[Indexer]:
        """Return the indexers; KeyError for an unknown index if no indexer exists that would raise it."""
        if not self._indexers and name != "namespace" and name not in self._added:
            raise KeyError(name)
        return self._indexers

    def get_by_key(self, key: str) -> Object | None:
        """Return the object with this key, or None."""
        return next((cached for indexer in self._indexers if (cached := indexer.get_by_key(key)) is not None), None)

    def get(self, obj: Any) -> Object | None:
        """Return the object with the same key, or None."""
        return next((cached for indexer in self._indexers if (cached := indexer.get(obj)) is not None), None)

    def list(self) -> builtins.list[Object]:
        """Return all objects."""
        return [obj for indexer in self._indexers for obj in indexer.list()]

    def select(self, namespace: str | None, labels: Labels) -> builtins.list[Object]:
        """Return the objects of a namespace, or of all, with these labels."""
        return [obj for indexer in self._indexers for obj in indexer.select(namespace, labels)]

    def list_keys(self) -> builtins.list[str]:
        """Return all keys."""
        return [key for indexer in self._indexers for key in indexer.list_keys()]

    def index(self, name: str, obj: Any) -> builtins.list[Object]:
        """Return the objects that share a value of the index with `obj`."""
        return [cached for indexer in self._with_index(name) for cached in indexer.index(name, obj)]

    def by_index(self, name: str, value: str) -> builtins.list[Object]:
        """Return the objects that the index has under a value; KeyError for an unknown index."""
        return [obj for indexer in self._with_index(name) for obj in indexer.by_index(name, value)]

    def index_keys(self, name: str, value: str) -> builtins.list[str]:
        """Return the keys of the objects that the index has under a value."""
        return [key for indexer in self._with_index(name) for key in indexer.index_keys(name, value)]

    def list_index_func_values(self, name: str) -> builtins.list[str]:
        """Return all values of the index."""
        values = (value for indexer in self._indexers for value in indexer.list_index_func_values(name))
        return builtins.list(dict.fromkeys(values))

    def __len__(self) -> int:
        """Return the number of objects."""
        return sum(map(len, self._indexers))


class ViewIndexer:
    """The selected part of an indexer. The wider one keeps its indexes, under prefixed names."""

    def __init__(self, wide: Indexer | UnionIndexer | ViewIndexer, selection: Selection, name: str) -> None:
        """Read the objects of `wide` that `selection` selects."""
        self._wide = wide
        self._selection = selection
        self._suffix = f" of {name}"

    def _name(self, name: str) -> str:
        return name if name == "namespace" else name + self._suffix

    def _selected(self, objects: Iterable[Object | None]) -> builtins.list[Object]:
        return [obj for obj in objects if obj is not None and self._selection.selects(obj)]

    def add_indexers(self, indexers: Mapping[str, Callable[[Object], Iterable[str] | None]]) -> None:
        """Add index functions."""
        self._wide.add_indexers({self._name(name): function for name, function in indexers.items()})

    def remove_indexers(self, names: Sequence[str]) -> None:
        """Remove indexes; unknown names are no error."""
        self._wide.remove_indexers([self._name(name) for name in names])

    def get_by_key(self, key: str) -> Object | None:
        """Return the object with this key, or None."""
        return next(iter(self._selected([self._wide.get_by_key(key)])), None)

    def get(self, obj: Any) -> Object | None:
        """Return the object with the same key, or None."""
        return next(iter(self._selected([self._wide.get(obj)])), None)

    def list(self) -> builtins.list[Object]:
        """Return all objects."""
        namespaces = self._selection.namespaces
        if namespaces is None:
            return self._selected(self._wide.list())
        return self._selected(obj for namespace in namespaces for obj in self._wide.by_index("namespace", namespace))

    def select(self, namespace: str | None, labels: Labels) -> builtins.list[Object]:
        """Return the objects of a namespace, or of all, with these labels."""
        namespaces = self._selection.namespaces if namespace is None else (namespace,)
        if namespaces is None:
            return self._selected(self._wide.select(None, labels))
        return self._selected(obj for chosen in namespaces for obj in self._wide.select(chosen, labels))

    def list_keys(self) -> builtins.list[str]:
        """Return all keys."""
        return [obj.key for obj in self.list()]

    def index(self, name: str, obj: Any) -> builtins.list[Object]:
        """Return the objects that share a value of the index with `obj`."""
        return self._selected(self._wide.index(self._name(name), obj))

    def by_index(self, name: str, value: str) -> builtins.list[Object]:
        """Return the objects that the index has under a value; KeyError for an unknown index."""
        return self._selected(self._wide.by_index(self._name(name), value))

    def index_keys(self, name: str, value: str) -> builtins.list[str]:
        """Return the keys of the objects that the index has under a value."""
        return [obj.key for obj in self.by_index(name, value)]

    def list_index_func_values(self, name: str) -> builtins.list[str]:
        """Return all values of the index."""
        values = self._wide.list_index_func_values(self._name(name))
        return [value for value in values if self.by_index(name, value)]

    def __len__(self) -> int:
        """Return the number of objects."""
        return len(self.list())
