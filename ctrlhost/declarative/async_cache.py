"""Typed reads from the caches in an `async def`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from ctrlhost.controller.caches import OWN, Cache, Namespace
from ctrlhost.declarative.awaits import remembers_calls

if TYPE_CHECKING:
    import builtins

    from ctrlhost.controller.index import Index
    from ctrlhost.declarative.awaits import Calls

T = TypeVar("T")


@remembers_calls("ctx.cache(…)")
class AsyncCache(Generic[T]):
    """A `Cache` whose `list`, `by_index` and `owned` are awaited: they may wait for the plugin's own writes."""

    def __init__(self, cache: Cache[T], calls: Calls) -> None:
        """Wrap a cache, and remember calls."""
        self._cache = cache
        self._calls = calls

    def get(self, name: str, namespace: str | Literal[Namespace.OWN] = OWN) -> T | None:
        """Return one object, or None.

        ValueError for a namespaced kind without a namespace, which a cluster-scoped object at hand does not have.
        """
        return self._cache.get(name, namespace)

    async def list(
        self, namespace: str | Literal[Namespace.OWN] | None = OWN, label_selector: str | None = None
    ) -> builtins.list[T]:
        """Return the objects of a namespace, unordered; ValueError for an invalid selector."""
        cache = await self._cache.caught_up(self._cache.namespace(namespace))
        return cache.list(namespace, label_selector)

    async def by_index(self, function: Index[T], value: str) -> builtins.list[T]:
        """Return the objects of all namespaces that an index has under `value`; KeyError for another function."""
        cache = await self._cache.caught_up(None)
        return cache.by_index(function, value)

    async def owned(self) -> builtins.list[T]:
        """Return the objects that the object at hand controls. KeyError for a kind that is not in `owns`."""
        cache = await self._cache.caught_up(None)
        return cache.owned()
