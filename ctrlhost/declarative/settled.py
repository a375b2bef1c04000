"""Differences that remain after an apply, since the server writes a value in another form."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from ctrlhost.cache import Object
    from ctrlhost.declarative.comparison import Leaf
    from ctrlhost.declarative.desired import Desired

#: The most objects that are remembered; an apply that changes nothing is sent for a forgotten one.
_MAX_OBJECTS = 65_536


class SettledDifferences:
    """The differences that the last apply of each object left. Methods may be called from any thread.

    They are kept as hashes: the values may be those of Secrets.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._lock = threading.Lock()
        self._hashes: OrderedDict[str, int] = OrderedDict()

    def include(self, desired: Desired, live: Object, leaves: list[Leaf]) -> bool:
        """Return whether an apply of this object left exactly these differences."""
        found = self._hashes.get(live.uid)
        return found is not None and found == _hash(desired, leaves)

    def left(self, desired: Desired, applied: Object, leaves: list[Leaf]) -> None:
        """Remember the differences that an apply left, if any."""
        if not leaves and applied.uid not in self._hashes:
            return
        with self._lock:
            self._hashes.pop(applied.uid, None)
            if leaves:
                self._hashes[applied.uid] = _hash(desired, leaves)
                if len(self._hashes) > _MAX_OBJECTS:
                    self._hashes.popitem(last=False)


def _hash(desired: Desired, leaves: list[Leaf]) -> int:
    return hash((desired.digest, msgspec.json.encode(leaves)))
