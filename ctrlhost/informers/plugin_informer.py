"""A shared informer as one plugin gets it: its functions run on the threads of that plugin.

It is chosen with its first use, so that an informer that a plugin only asks for in `ctrlhost_setup` can become a part
of one that another plugin asks for later.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from ctrlhost.errors import CtrlhostError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ctrlhost.informers.caller import Caller
    from ctrlhost.informers.handle import Handle
    from ctrlhost.informers.informer import Informer


class PluginInformer:
    """An `Informer`, except for who calls the functions that are added through it."""

    def __init__(self, choose: Callable[[], Informer], caller: Caller) -> None:
        """Call functions through `caller`; everything else is done by the informer that `choose` returns."""
        self._choose = choose
        self._lock = threading.Lock()
        self._chosen: Informer | None = None
        self._released = False
        self._caller = caller
        #: The cache, as `informer.indexer`.
        self.indexer = _PluginIndexer(self, caller)

    @property
    def _informer(self) -> Informer:
        return self.choose()

    @property
    def chosen(self) -> Informer | None:
        """The shared informer; None before its first use."""
        return self._chosen

    def choose(self) -> Informer:
        """Return the shared informer; the first call makes it, or joins one that exists.

        CtrlhostError if the plugin has ended before.
        """
        with self._lock:
            if self._chosen is None:
                if self._released:
                    raise CtrlhostError("the plugin of this informer has ended")
                self._chosen = self._choose()
            return self._chosen

    def release(self) -> None:
        """Return the informer to its factory, if one was chosen."""
        with self._lock:
            chosen, self._released = self._chosen, True
        if chosen is not None:
            chosen.release()

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the informer."""
        return getattr(self._informer, name)

    def add_handler(self, *args: Any, **options: Any) -> Handle:
        """Add a handler; see `Informer.add_handler`."""
        return self._informer.add_handler(*args, **{"caller": self._caller, **options})

    def enqueue_to(self, *args: Any, **options: Any) -> Handle:
        """Enqueue requests; see `Informer.enqueue_to`."""
        return self._informer.enqueue_to(*args, **{"caller": self._caller, **options})

    def stop(self, *_: Any, **_options: Any) -> None:
        """Raise CtrlhostError: other plugins use the informer, too."""
        raise CtrlhostError(
            f"informer {self._informer.key} was not stopped: other plugins use it, too",
            hint="remove the plugin's handlers instead: `add_handler` returns a handle with `remove`",
        )

    def add_indexers(self, indexers: Mapping[str, Any]) -> None:
        """Add indexes; see `Informer.add_indexers`."""
        self._informer.add_indexers(indexers, caller=self._caller)


class _PluginIndexer:
    """The indexer of an informer, except for who calls the index functions that are added through it."""

    def __init__(self, informer: PluginInformer, caller: Caller) -> None:
        self._plugin_informer = informer
        self._caller = caller

    @property
    def _informer(self) -> Informer:
        return self._plugin_informer.choose()

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the indexer."""
        return getattr(self._informer.indexer, name)

    def __len__(self) -> int:
        """Return the number of objects."""
        return len(self._informer.indexer)

    def add_indexers(self, indexers: Mapping[str, Any]) -> None:
        """Add indexes."""
        self._informer.add_indexers(indexers, caller=self._caller)
