"""Going through the cache after a change that concerns many, and asking it how many say what."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any

import ctrlhost
from ctrlhost_ingress_status.desired import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from ctrlhost.cache import Object
    from ctrlhost_ingress_status.desired import Desired
    from ctrlhost_ingress_status.target import Target

_INDEX = "ctrlhost_ingress_status/class and addresses"
_SLOW = -100
#: So many are queued in one step; the first of them are written while the others are still looked for.
_CHUNK = 500
STATES = ("current", "pending", "foreign_class")


class Passes:
    """The objects by their class and what they say, so that a pass looks at none that needs nothing."""

    def __init__(self, informer: ctrlhost.Informer, target: Target, desired: Desired) -> None:
        """Index the cache."""
        self._target, self._desired = target, desired
        self._indexer: Any = informer.indexer
        self._indexer.add_indexers({_INDEX: self._value})

    def _value(self, obj: Object) -> Iterable[str]:
        return (f"{self._target.class_of(obj)}\n{self._target.mark(obj)}",)

    def wanting(self, classes: frozenset[str] | None = None) -> Iterator[ctrlhost.Request]:
        """Give the keys of what does not say what it should; of these classes only, if any are given.

        The cache is asked for one group of equal objects at a time, and never for objects.
        """
        known = self._desired.known
        for class_name, mark, value in self._values():
            if classes is not None and class_name not in classes:
                continue
            if self._desired.verdict(class_name, mark, known) in (Verdict.WRITE, Verdict.CLEAR):
                for key in self._indexer.index_keys(_INDEX, value):
                    namespace, _, name = key.rpartition("/")
                    yield ctrlhost.Request(name, namespace)

    def enqueue(self, enqueue: Callable[..., None], classes: frozenset[str] | None = None) -> int:
        """Have all of them updated, in the slow lane, and give their number; `enqueue` takes many at once."""
        count, wanting = 0, self.wanting(classes)
        while some := list(itertools.islice(wanting, _CHUNK)):
            enqueue(some, priority=_SLOW)
            count += len(some)
        return count

    def count(self) -> Mapping[str, int]:
        """Count the objects that say what they should, that do not, and that are not ours."""
        counts, known = Counter(dict.fromkeys(STATES, 0)), self._desired.known
        for class_name, mark, value in self._values():
            state = "foreign_class"
            if class_name in self._desired.ours:
                right = self._desired.verdict(class_name, mark, known) is Verdict.RIGHT
                state = "current" if right else "pending"
            counts[state] += len(self._indexer.index_keys(_INDEX, value))
        return counts

    def _values(self) -> Iterator[tuple[str, str, str]]:
        for value in self._indexer.list_index_func_values(_INDEX):
            class_name, _, mark = value.partition("\n")
            yield class_name, mark, value
