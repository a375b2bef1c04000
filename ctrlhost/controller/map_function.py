"""Maps that get structs, or the caches of their plugin."""

from __future__ import annotations

import inspect
import logging
from typing import TYPE_CHECKING, Any

from ctrlhost.controller.caches import Caches
from ctrlhost.models.model import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ctrlhost.cache import Object
    from ctrlhost.controller.attachment import AttachScope
    from ctrlhost.request import Request

log = logging.getLogger("ctrlhost.controller")


class MapFunction:
    """A map of a plugin, called with an object of its kind as it was declared, and with caches if it takes two."""

    def __init__(
        self,
        function: Callable[..., Iterable[Request]],
        model: type[Any] | None,
        scope: AttachScope,
        *,
        inside: bool = False,
    ) -> None:
        """Wrap a function, which gets objects of `model`, or `Object`s if that is None.

        With `inside` only requests in the namespace of the object count: others belong to replicas that do not see it.
        """
        #: The plugin's own function, which metrics name.
        self.func = function
        self._model = model
        self._caches = takes_caches(function)
        self._scope = scope
        self._inside = inside
        self._told = False

    def __call__(self, obj: Object) -> Iterable[Request]:
        """Return the requests."""
        typed = obj if self._model is None else decode(obj, self._model)
        requests = self.func(typed, Caches(self._scope, obj)) if self._caches else self.func(typed)
        return requests if not self._inside else self._within(obj, requests)

    def _within(self, obj: Object, requests: Iterable[Request]) -> list[Request]:
        """Return the requests in the namespace of the object; count the others, and log the first of them."""
        kept = []
        for request in requests:
            if request.namespace == obj.namespace:
                kept.append(request)
                continue
            if self._scope.shards is not None:
                self._scope.shards.count_dropped()
            if not self._told:
                self._told = True
                log.warning(
                    "controller %s: %s was mapped out of its shard, to %s, and is dropped "
                    "(hint: `shared=True` on the source keeps all of it on every replica)",
                    self._scope.controller, obj.key, request,
                )  # fmt: skip
        return kept


def takes_caches(function: Callable[..., Any]) -> bool:
    """Return whether a map takes caches as its second argument."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return False
    try:
        signature.bind(None)
    except TypeError:
        try:
            signature.bind(None, None)
        except TypeError:
            return False
        return True
    return False
