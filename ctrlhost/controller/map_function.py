"""Maps that get structs, or the caches of their plugin."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from ctrlhost.controller.caches import Caches
from ctrlhost.models.model import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ctrlhost.cache import Object
    from ctrlhost.controller.attachment import AttachScope
    from ctrlhost.request import Request


class MapFunction:
    """A map of a plugin, called with an object of its kind as it was declared, and with caches if it takes two."""

    def __init__(self, function: Callable[..., Iterable[Request]], model: type[Any] | None, scope: AttachScope) -> None:
        """Wrap a function, which gets objects of `model`, or `Object`s if that is None."""
        #: The plugin's own function, which metrics name.
        self.func = function
        self._model = model
        self._caches = takes_caches(function)
        self._scope = scope

    def __call__(self, obj: Object) -> Iterable[Request]:
        """Return the requests."""
        typed = obj if self._model is None else decode(obj, self._model)
        if self._caches:
            return self.func(typed, Caches(self._scope, obj))
        return self.func(typed)


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
