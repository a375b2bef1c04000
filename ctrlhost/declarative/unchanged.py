"""Which objects were found as they are wanted, so that the same two need not be compared in each run."""

from __future__ import annotations

import threading
from collections import OrderedDict
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from ctrlhost.controller.context import owned_lister

if TYPE_CHECKING:
    from ctrlhost.cache import Object
    from ctrlhost.controller.context import Context
    from ctrlhost.declarative.child import Child

#: The most objects that are remembered; others are compared.
_OBJECTS = 65_536
#: What identifies a wanted object: its owner's uid, and a hash of its content, which may be that of a Secret.
Key = tuple[str, bytes]


class Unchanged:
    """The version of each live object that was found as it is wanted. Methods may be called from any thread."""

    def __init__(self, objects: int = _OBJECTS) -> None:
        """Start empty; remember so many objects, those found last."""
        self._most = objects
        self._lock = threading.Lock()
        self._versions: OrderedDict[Key, tuple[str, str, str, str, str, str]] = OrderedDict()

    @staticmethod
    def key(owner: Object, encoded: bytes) -> Key:
        """Return the key of a wanted object by its JSON."""
        return owner.uid, sha256(encoded).digest()

    def find(self, context: Context[Any, Any], key: Key) -> Object | None:
        """Return the cached object if it is still the one that was found; None if it has to be compared."""
        entry = self._versions.get(key)
        if entry is None:
            return None
        api_version, kind, name, namespace, uid, version = entry
        live = owned_lister(context, api_version, kind).get(name, namespace)
        return live if live is not None and live.resource_version == version and live.uid == uid else None

    def keep(self, key: Key, child: Child, live: Object) -> None:
        """Remember that this live object is as it is wanted."""
        desired = child.desired
        place = (desired.api_version, desired.kind, desired.name, child.namespace)
        with self._lock:
            self._versions[key] = (*place, live.uid, live.resource_version)
            self._versions.move_to_end(key)
            if len(self._versions) > self._most:
                self._versions.popitem(last=False)
