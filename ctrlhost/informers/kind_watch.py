"""Following which custom kinds there are: informers wake when theirs appears, and let go when it is removed."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from ctrlhost.cache import DeletedFinalStateUnknown
from ctrlhost.client.builtin_kinds import builtin_plural

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ctrlhost.client.resources import Resources
    from ctrlhost.informers.informer import Informer
    from ctrlhost.informers.namespace_informer import Scope

log = logging.getLogger(__name__)

API_VERSION, KIND = "apiextensions.k8s.io/v1", "CustomResourceDefinition"


def is_custom(scope: Scope) -> bool:
    """Tell whether a kind may be defined by a CustomResourceDefinition: all that are not built in."""
    return builtin_plural(scope.api_version, scope.kind) is None


class KindWatch:
    """Tells informers what becomes of their CustomResourceDefinitions, whose names are `PLURAL.GROUP`.

    Without the right to watch them, and for kinds of aggregated API servers, informers look for their kinds themselves,
    and keep what they hold of a kind that is gone.
    """

    def __init__(self, crds: Informer, informers: Callable[[], Iterable[Informer]], resources: Resources) -> None:
        """Hear of all CRDs from `crds`, which the factory counts as used by this."""
        self.crds = crds
        self._informers = informers
        self._resources = resources
        self._handle = crds.add_handler(
            on_add=lambda crd, _: self._changed(crd), on_update=lambda _, crd: self._changed(crd), on_delete=self._gone
        )

    def stop(self) -> None:
        """Hear of no more."""
        self._handle.remove()

    def missing(self, informer: Informer) -> None:
        """Let go of what an informer holds if its kind, which is not served, has no CRD any more.

        Off the caller's thread, which is the informer's own.
        """
        threading.Thread(target=self._let_go, args=(informer,), name=f"end of {informer.kind}", daemon=True).start()

    def _let_go(self, informer: Informer) -> None:
        if self.crds.has_synced and len(informer.indexer) and not self._is_defined(informer):
            log.info("%s is not defined any more; what was cached of it is gone", informer.key)
            informer.kind_gone()

    def _is_defined(self, informer: Informer) -> bool:
        resource = self._resources.last_known(informer.api_version, informer.kind)
        return resource is None or self.crds.lister.get(resource.name) is not None

    def _changed(self, crd: Any) -> None:
        """Look at once: the kind is served now, or will be after another change of the CRD, its being established."""
        _, _, group = crd.name.partition(".")
        for informer in self._of(group):
            if informer.state != "watching":
                informer.poke()

    def _gone(self, crd: Any) -> None:
        name = crd.key if isinstance(crd, DeletedFinalStateUnknown) else crd.name
        for informer in self._of(name.partition(".")[2]):
            self._let_go(informer)

    def _of(self, group: str) -> list[Informer]:
        return [each for each in self._informers() if each.api_version.rpartition("/")[0] == group]
