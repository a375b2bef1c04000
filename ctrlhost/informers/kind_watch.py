"""Retry informers of custom kinds when their CRD is installed, and empty them when it is removed."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from ctrlhost.cache import DeletedFinalStateUnknown
from ctrlhost.client.builtin_kinds import builtin_plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ctrlhost.client.resources import Resources
    from ctrlhost.informers.caller import Caller
    from ctrlhost.informers.informer import Informer
    from ctrlhost.informers.namespace_informer import Scope

log = logging.getLogger(__name__)

API_VERSION, KIND = "apiextensions.k8s.io/v1", "CustomResourceDefinition"


def is_custom(scope: Scope) -> bool:
    """Return whether a CustomResourceDefinition may define the kind: any kind that is not built in."""
    return builtin_plural(scope.api_version, scope.kind) is None


class KindWatch:
    """Notifies informers of changes to their CustomResourceDefinitions, whose names are `PLURAL.GROUP`.

    Without permission to watch CRDs, and for kinds of aggregated API servers, informers poll for their kinds, and keep
    the cached objects of a kind that is no longer served.
    """

    def __init__(
        self, crds: Informer, informers: Callable[[], Iterable[Informer]], resources: Resources, caller: Caller
    ) -> None:
        """Watch all CRDs through `crds`, which the factory counts as used by this, on `caller`."""
        self.crds = crds
        self._informers = informers
        self._resources = resources
        self._handle = crds.add_handler(
            on_add=lambda crd, _: self._changed(crd),
            on_update=lambda _, crd: self._changed(crd),
            on_delete=self._gone,
            caller=caller,
        )

    def stop(self) -> None:
        """Stop watching."""
        self._handle.remove()

    def missing(self, informer: Informer) -> None:
        """Empty an informer whose kind is not served if the kind has no CRD.

        Runs in a new thread, since the caller's is the informer's own.
        """
        name = f"end of {informer.kind}"
        threading.Thread(target=self._empty_if_undefined, args=(informer,), name=name, daemon=True).start()

    def _empty_if_undefined(self, informer: Informer) -> None:
        if self.crds.has_synced and len(informer.indexer) and not self._is_defined(informer):
            log.info("emptying the cache of %s: the kind is no longer defined", informer.key)
            informer.kind_gone()

    def _is_defined(self, informer: Informer) -> bool:
        resource = self._resources.last_known(informer.api_version, informer.kind)
        return resource is None or self.crds.lister.get(resource.name) is not None

    def _changed(self, crd: Any) -> None:
        """Retry at once; if the CRD is not established yet, its next change retries again."""
        for informer in self._of_crd(crd.name):
            if informer.state != "watching":
                informer.wake()

    def _gone(self, crd: Any) -> None:
        for informer in self._of_crd(crd.key if isinstance(crd, DeletedFinalStateUnknown) else crd.name):
            self._empty_if_undefined(informer)

    def _of_crd(self, name: str) -> list[Informer]:
        group = name.partition(".")[2]
        return [informer for informer in self._informers() if informer.api_version.rpartition("/")[0] == group]
