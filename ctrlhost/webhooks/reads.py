"""The caches of the kinds that `reads` of a webhook names."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from ctrlhost.own_writes.lister import PluginLister

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctrlhost.controller.index import Index
    from ctrlhost.controller.services import PluginScope
    from ctrlhost.informers.plugin_informer import PluginInformer


class WebhookReads:
    """The informers of the kinds that one webhook reads; those of the plugin's controllers are not among them.

    All methods may be called from any thread.
    """

    def __init__(
        self,
        plugin: PluginScope,
        informers: Mapping[tuple[str, str], PluginInformer],
        indexes: Sequence[Index[Any]] = (),
    ) -> None:
        """Read from the plugin's own informers, by apiVersion and kind, with the indexes of the plugin."""
        self._plugin = plugin
        self._informers = informers
        self._indexes = indexes
        self._lock = threading.Lock()
        self._listers: dict[tuple[str, str], PluginLister] = {}

    @property
    def kinds(self) -> tuple[tuple[str, str], ...]:
        """The kinds, by apiVersion and kind."""
        return tuple(self._informers)

    def lister(self, kind: tuple[str, str]) -> PluginLister | None:
        """Return the cached objects of a kind, of those that the plugin's controllers declare too; None for others."""
        informer = self._informers.get(kind)
        if informer is None:
            return self._plugin.listers.get(kind)
        with self._lock:
            if kind not in self._listers:
                chosen = informer.choose()
                indexes = {index.name: index for index in self._indexes if index.kind[:2] == kind}
                names = {name: f"{self._plugin.name}/{name}" for name in indexes}
                indexed = self._plugin.indexed(chosen)
                for name in indexes.keys() - indexed.keys():
                    informer.add_indexers({names[name]: indexes[name].over_objects})
                    indexed[name] = indexes[name].over_objects
                pending = self._plugin.own_writes.follow(*kind, chosen)
                self._listers[kind] = PluginLister(chosen, pending, names)
            return self._listers[kind]
