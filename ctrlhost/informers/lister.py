"""Reading what informers hold: over one cache, or over one per namespace as if it were one."""

from __future__ import annotations

import builtins
import threading
from itertools import chain
from typing import TYPE_CHECKING, Any

from ctrlhost.informers import selectors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ctrlhost.cache import Indexer, Object
    from ctrlhost.informers.view import ViewIndexer


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


class Lister:
    """Reads from an informer's cache. What it gives can not be changed in place. Safe to use from any thread."""

    def __init__(self, indexer: Indexer | UnionIndexer | ViewIndexer) -> None:
        """Read from this."""
        self._indexer = indexer

    def get(self, name: str, namespace: str = "") -> Object | None:
        """Give one object, None if there is none."""
        return self._indexer.get_by_key(f"{namespace}/{name}" if namespace else name)

    def list(self, namespace: str | None = None, label_selector: str | None = None) -> builtins.list[Object]:
        """Give the objects of one namespace or of all, in no order; ValueError for a selector that makes no sense."""
        wanted = selectors.parse(label_selector or "")
        found = self._indexer.list() if namespace is None else self._indexer.by_index("namespace", namespace)
        if not wanted:
            return found
        return [each for each in found if selectors.matches(wanted, each.labels)]

    def by_index(self, name: str, value: str) -> builtins.list[Object]:
        """Give the objects that an index has under a value; KeyError for an unknown index."""
        return self._indexer.by_index(name, value)
