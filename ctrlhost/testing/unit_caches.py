"""The caches of a plugin without informers: they show what is in memory at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from ctrlhost.cache import Indexer, namespace_index
from ctrlhost.informers.lister import Lister
from ctrlhost.own_writes.lister import PluginLister

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ctrlhost.controller.source import KindSource


class UnitCaches:
    """One cache for each kind that a plugin reads, with all objects of the kind. For use by one thread."""

    def __init__(self) -> None:
        """Start without caches."""
        self._indexers: dict[tuple[str, str], Indexer] = {}

    def add(self, sources: Iterable[KindSource]) -> None:
        """Add empty caches for sources, with their indexes."""
        for source in sources:
            kind = (source.api_version, source.kind)
            indexer = self._indexers.setdefault(kind, Indexer({"namespace": namespace_index}))
            missing = {name: by for name, by in source.indexes.items() if name not in indexer.indexers}
            indexer.add_indexers(missing)

    def changed(self, obj: dict[str, Any], exists: bool) -> None:
        """Take over an object that was written, or drop one that was deleted."""
        indexer = self._indexers.get((obj["apiVersion"], obj["kind"]))
        if indexer is not None and exists:
            indexer.update(obj)
        elif indexer is not None:
            indexer.delete(obj)

    def listers(self) -> Mapping[tuple[str, str], PluginLister]:
        """Return the readers of the caches, by apiVersion and kind."""
        return {kind: _UnitLister(indexer) for kind, indexer in self._indexers.items()}


class _UnitLister(PluginLister):
    """Reads one cache, which is never behind."""

    def __init__(self, indexer: Indexer) -> None:
        informer = cast("Any", SimpleNamespace(lister=Lister(indexer)))
        super().__init__(informer, cast("Any", ()), {name: name for name in indexer.indexers})

    @property
    def has_synced(self) -> bool:
        return True
