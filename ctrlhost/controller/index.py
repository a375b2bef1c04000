"""Index functions, as `@plugin.index` makes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from ctrlhost.models.model import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ctrlhost.cache import Object
    from ctrlhost.models.kinds import Kind

T = TypeVar("T")


class Index(Generic[T]):
    """An index over the objects of a kind: what `@plugin.index` makes of a function, and `cache.by_index` takes.

    It is still callable with an object, so that a test can call it.
    """

    def __init__(self, kind: Kind, function: Callable[[T], Iterable[str] | None]) -> None:
        """Index a kind by what `function` returns for an object."""
        self.kind = kind
        self.name: str = getattr(function, "__name__", repr(function))
        self.function = function

    def __call__(self, obj: T) -> Iterable[str] | None:
        """Return the values under which `obj` is found."""
        return self.function(obj)

    def over_objects(self, obj: Object) -> Iterable[str] | None:
        """Return the values for a cached object; InvalidObject if it does not fit the kind's struct."""
        return self.function(obj if self.kind.model is None else decode(obj, self.kind.model))  # type: ignore[arg-type]

    def __repr__(self) -> str:
        """Return the name and the kind."""
        return f"<index {self.name} of {self.kind}>"
