"""Objects that somebody else applies as well, as another version of the plugin does in a host of its own."""

from __future__ import annotations

import threading
from collections import OrderedDict

#: Seconds for which what somebody else has applied over the plugin's own apply is left as it is.
TRUCE = 60.0
#: The most objects that are remembered.
_OBJECTS = 65_536


class Rivals:
    """The last apply of each object, by uid. Methods may be called from any thread."""

    def __init__(self) -> None:
        """Start empty."""
        self._lock = threading.Lock()
        self._applied: OrderedDict[str, tuple[str, float]] = OrderedDict()

    def applied(self, uid: str, digest: str, now: float) -> None:
        """Remember that the plugin has applied what has this digest."""
        with self._lock:
            self._applied[uid] = (digest, now)
            self._applied.move_to_end(uid)
            if len(self._applied) > _OBJECTS:
                self._applied.popitem(last=False)

    def have(self, uid: str, digest: str, now: float) -> bool:
        """Return whether the digest of the object is another one than the plugin has applied within the last minute."""
        own, at = self._applied.get(uid, (digest, 0.0))
        return own != digest and now < at + TRUCE
