"""The passes over the cache after a change that affects many Ingresses."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any

import ctrlhost
from ctrlhost_ingress_status.ingress import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ctrlhost import Object
    from ctrlhost_ingress_status.ingress import Desired, IngressTarget

_INDEX = "ctrlhost_ingress_status/class and addresses"
_BULK_PRIORITY = -100
#: Keys enqueued in one step; the first are written while the rest are still being collected.
_CHUNK = 500
STATES = ("current", "pending", "foreign_class")


class Passes:
    """An index of the objects by class and addresses, so that a pass skips those that are right."""

    def __init__(self, informer: ctrlhost.Informer, target: IngressTarget, desired: Desired) -> None:
        """Index the cache."""
        self._target, self._desired = target, desired
        self._indexer: Any = informer.indexer
        self._indexer.add_indexers({_INDEX: self._value})

    def _value(self, obj: Object) -> Iterable[str]:
        return (f"{self._target.class_of(obj)}\n{self._target.mark(obj)}",)

    def wanting(self, classes: frozenset[str] | None = None) -> Iterator[ctrlhost.Request]:
        """Return the keys of the objects that are wrong, limited to these classes if any are given.

        The cache is read one group of equal objects at a time, by keys only.
        """
        for keys in self._wrong(classes):
            for key in keys:
                namespace, _, name = key.rpartition("/")
                yield ctrlhost.Request(name, namespace)

    def remaining(self) -> int:
        """Count the objects that are wrong."""
        return sum(len(keys) for keys in self._wrong())

    def enqueue(self, enqueue: Callable[..., None], classes: frozenset[str] | None = None) -> int:
        """Enqueue all of them at bulk priority, and return their number; `enqueue` takes many at once."""
        count, wanting = 0, self.wanting(classes)
        while some := list(itertools.islice(wanting, _CHUNK)):
            enqueue(some, priority=_BULK_PRIORITY)
            count += len(some)
        return count

    def count(self) -> Mapping[str, int]:
        """Count the objects that are right, that are wrong, and that are not ours."""
        counts, known = Counter(dict.fromkeys(STATES, 0)), self._desired.known
        for class_name, mark, value in self._values():
            state = "foreign_class"
            if class_name in self._desired.ours:
                right = self._desired.verdict(class_name, mark, known) is Verdict.RIGHT
                state = "current" if right else "pending"
            counts[state] += len(self._indexer.index_keys(_INDEX, value))
        return counts

    def _wrong(self, classes: frozenset[str] | None = None) -> Iterator[list[str]]:
        known = self._desired.known
        for class_name, mark, value in self._values():
            if classes is not None and class_name not in classes:
                continue
            if self._desired.verdict(class_name, mark, known) in (Verdict.WRITE, Verdict.CLEAR):
                yield self._indexer.index_keys(_INDEX, value)

    def _values(self) -> Iterator[tuple[str, str, str]]:
        for value in self._indexer.list_index_func_values(_INDEX):
            class_name, _, mark = value.partition("\n")
            yield class_name, mark, value
