"""Reading what informers hold: over one cache, or over one per namespace as if it were one."""

from __future__ import annotations

import builtins
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

    def add_indexers(self, indexers: Mapping[str, Callable[[Object], Iterable[str] | None]]) -> None:
        """Add index functions to all of them."""
        for each in self._indexers:
            each.add_indexers(indexers)

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
        return builtins.list(chain.from_iterable(each.index(name, obj) for each in self._indexers))

    def by_index(self, name: str, value: str) -> builtins.list[Object]:
        """Give the objects that the index has under a value; KeyError for an unknown index."""
        return builtins.list(chain.from_iterable(each.by_index(name, value) for each in self._indexers))

    def index_keys(self, name: str, value: str) -> builtins.list[str]:
        """Give their keys."""
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
