"""Indexers over other indexers: several read as one, and the chosen part of one."""

from __future__ import annotations

import builtins
import threading
from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ctrlhost.cache import Indexer, Object
    from ctrlhost.informers.narrowing import Selection


class UnionIndexer:
    """Several indexers that hold different namespaces, read as one. The objects are added by reflectors alone."""

    def __init__(self, indexers: Sequence[Indexer]) -> None:
        """Read from these."""
        self._indexers = indexers
        #: All that get the index functions: what is read, and what may be read later.
        self._known = builtins.list(indexers)
        self._lock = threading.Lock()
        self._added: dict[str, Callable[[Object], Iterable[str] | None]] = {}

    def add_indexers(self, indexers: Mapping[str, Callable[[Object], Iterable[str] | None]]) -> None:
        """Add index functions to all of them, those that come later too; ValueError for a name that is taken."""
        with self._lock:
            taken = sorted(set(indexers) & {"namespace", *self._added})
            if taken:
                raise ValueError(f"indexer conflict: {taken}")
            for each in self._known:
                each.add_indexers(indexers)
            self._added.update(indexers)

    def prepare(self, indexer: Indexer) -> None:
        """Give an indexer that is to be read later the index functions of the others."""
        with self._lock:
            if self._added:
                indexer.add_indexers(self._added)
            self._known.append(indexer)

    def forget(self, indexer: Indexer) -> None:
        """Add no more index functions to an indexer that nobody will read."""
        with self._lock:
            self._known = [each for each in self._known if each is not indexer]

    def adopt(self, indexers: Sequence[Indexer]) -> None:
        """Read from these instead; new ones were prepared."""
        self._indexers = indexers

    def _check(self, name: str) -> None:
        """Refuse an unknown index where there is no indexer to do that."""
        if not self._indexers and name != "namespace" and name not in self._added:
            raise KeyError(name)

    def get_by_key(self, key: str) -> Object | None:
        """Give the object of a key, None if there is none."""
        for each in self._indexers:
            found = each.get_by_key(key)
            if found is not None:
                return found
        return None

    def get(self, obj: Any) -> Object | None:
        """Give the object that has the same key."""
        for each in self._indexers:
            found = each.get(obj)
            if found is not None:
                return found
        return None

    def list(self) -> builtins.list[Object]:
        """Give all objects."""
        return builtins.list(chain.from_iterable(each.list() for each in self._indexers))

    def list_keys(self) -> builtins.list[str]:
        """Give all keys."""
        return builtins.list(chain.from_iterable(each.list_keys() for each in self._indexers))

    def index(self, name: str, obj: Any) -> builtins.list[Object]:
        """Give the objects that share a value of the index with `obj`."""
        self._check(name)
        return builtins.list(chain.from_iterable(each.index(name, obj) for each in self._indexers))

    def by_index(self, name: str, value: str) -> builtins.list[Object]:
        """Give the objects that the index has under a value; KeyError for an unknown index."""
        self._check(name)
        return builtins.list(chain.from_iterable(each.by_index(name, value) for each in self._indexers))

    def index_keys(self, name: str, value: str) -> builtins.list[str]:
        """Give their keys."""
        self._check(name)
        return builtins.list(chain.from_iterable(each.index_keys(name, value) for each in self._indexers))

    def list_index_func_values(self, name: str) -> builtins.list[str]:
        """Give all values that the index has."""
        return builtins.list(
            dict.fromkeys(chain.from_iterable(each.list_index_func_values(name) for each in self._indexers))
        )

    def __len__(self) -> int:
        """Count the objects."""
        return sum(len(each) for each in self._indexers)


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
