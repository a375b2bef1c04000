"""Indexes: what the handlers of `kopf.index` return, by the keys that they choose."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ctrlhost_kopf import lifecycles
from ctrlhost_kopf.execution import Cause, ErrorsMode, execute_handlers
from ctrlhost_kopf.filters import matching
from ctrlhost_kopf.progress import State

if TYPE_CHECKING:
    from ctrlhost_kopf.processing import Memory

_K = TypeVar("_K")
_V = TypeVar("_V")
#: The namespace, name and uid of an object.
_Key = tuple[Any, ...]


class Store(Collection[_V], Generic[_V]):
    """The values under one key of an index."""

    def __init__(self) -> None:
        self.values: dict[_Key, _V] = {}

    def __repr__(self) -> str:
        return repr(list(self.values.values()))

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[_V]:
        return iter(list(self.values.values()))

    def __contains__(self, value: object) -> bool:
        return value in self.values.values()


class Index(Mapping[_K, Store[_V]], Generic[_K, _V]):
    """The values that the handlers of an index have returned, by key."""

    def __init__(self) -> None:
        self._stores: dict[_K, Store[_V]] = {}

    def __repr__(self) -> str:
        return repr(self._stores)

    def __len__(self) -> int:
        return len(self._stores)

    def __iter__(self) -> Iterator[_K]:
        return iter(list(self._stores))

    def __getitem__(self, key: _K) -> Store[_V]:
        return self._stores[key]

    def replace(self, source: _Key, value: Any) -> None:
        """Set what an object has in the index: a mapping has its own keys, any other value the key None."""
        values: Mapping[Any, Any] = value if isinstance(value, Mapping) else {None: value}
        for key in values:
            self._stores.setdefault(key, Store()).values[source] = values[key]
        self.discard(source, keep=values)

    def clear(self) -> None:
        """Remove all objects."""
        self._stores.clear()

    def discard(self, source: _Key, keep: Mapping[Any, Any] | None = None) -> None:
        """Remove what an object has under other keys."""
        for key, store in list(self._stores.items()):
            if key not in (keep or {}):
                store.values.pop(source, None)
                if not store.values:
                    del self._stores[key]


async def index_object(cause: Cause, memory: Memory, *, gone: bool) -> None:
    """Call the indexing handlers of an object, and keep what they return."""
    operator, meta = cause.operator, cause.body.metadata
    source = (meta.namespace, meta.name, meta.uid)
    handlers = [] if gone else matching(operator.registry.indexing, cause)
    state = (memory.indexing_state or State({}, operator.time)).for_handlers(None, handlers)
    outcomes = await execute_handlers(cause, handlers, state, lifecycles.all_at_once, ErrorsMode.IGNORED)
    memory.indexing_state = state.with_outcomes(outcomes).without_successes()
    for key, index in operator.indexers.items():
        outcome = outcomes.get(key)
        if outcome is None or outcome.exception is not None:
            index.discard(source)
        elif outcome.result is not None:
            index.replace(source, outcome.result)
