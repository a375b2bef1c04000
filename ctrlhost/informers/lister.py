"""Reading what informers hold: over one cache, or over one per namespace as if it were one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctrlhost.selectors import labels as selectors

if TYPE_CHECKING:
    import builtins

    from ctrlhost.cache import Indexer, Object
    from ctrlhost.informers.indexers import UnionIndexer, ViewIndexer


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
