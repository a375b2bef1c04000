"""Reads from an informer's cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost.selectors import labels as selectors

if TYPE_CHECKING:
    import builtins

    from ctrlhost.cache import Indexer, Object
    from ctrlhost.informers.indexers import UnionIndexer, ViewIndexer


class Lister:
    """Reads from an informer's cache. The objects are immutable. All methods may be called from any thread."""

    def __init__(self, indexer: Indexer | UnionIndexer | ViewIndexer) -> None:
        """Read from `indexer`."""
        self._indexer = indexer

    def get(self, name: str, namespace: str = "") -> Object | None:
        """Return one object, or None."""
        return self._indexer.get_by_key(f"{namespace}/{name}" if namespace else name)

    def list(self, namespace: str | None = None, label_selector: str | None = None) -> builtins.list[Object]:
        """Return the objects of one namespace or of all, unordered; ValueError for an invalid selector."""
        wanted = selectors.parse(label_selector or "")
        if wanted:
            return self._indexer.select(namespace, selectors.native(wanted))
        return self._indexer.list() if namespace is None else self._indexer.by_index("namespace", namespace)

    def by_index(self, name: str, value: str) -> builtins.list[Object]:
        """Return the objects that an index has under a value; KeyError for an unknown index."""
        return self._indexer.by_index(name, value)
