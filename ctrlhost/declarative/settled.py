"""What the last write of each object left as it was, since the server writes it in another form, or drops it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable

#: The most objects that are remembered; a write that changes nothing is sent for a forgotten one.
_OBJECTS = 65_536


class Settled:
    """What a write without an effect was about, by the uid of its object. Methods may be called from any thread.

    It is kept as hashes: the values may be those of Secrets.
    """

    def __init__(self, objects: int = _OBJECTS) -> None:
        """Start empty; remember so many objects, the latest ones."""
        self._most = objects
        self._lock = threading.Lock()
        self._hashes: OrderedDict[str, int] = OrderedDict()

    def include(self, uid: str, left: Hashable) -> bool:
        """Return whether the last write of this object left exactly this."""
        return self._hashes.get(uid) == hash(left)

    def keep(self, uid: str, left: Hashable | None) -> None:
        """Remember what a write of this object left, None for nothing."""
        with self._lock:
            self._hashes.pop(uid, None)
            if left is not None:
                self._hashes[uid] = hash(left)
                if len(self._hashes) > self._most:
                    self._hashes.popitem(last=False)
