"""Send the status of a run, at most once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

import msgspec

from ctrlhost.client import Client
from ctrlhost.client.steps import steps_of
from ctrlhost.client.subresources import lacks
from ctrlhost.controller.status import StatusWriter
from ctrlhost.errors import Forbidden, NotFound

if TYPE_CHECKING:
    from ctrlhost.cache import Object
    from ctrlhost.client.steps import Steps
    from ctrlhost.clock import Clock
    from ctrlhost.controller.status_shape import StatusShape

#: The objects whose last patch without an effect is remembered, per controller.
_OBJECTS = 4096


class StatusPatches:
    """Sends the status of the runs of one controller. Callable from any thread."""

    def __init__(self, shape: StatusShape) -> None:
        """Write to the kind of this shape."""
        self._shape = shape
        self._lock = threading.Lock()
        #: By uid: the version of the object, and a patch that did not change it.
        self._ineffective: OrderedDict[str, tuple[str, bytes]] = OrderedDict()

    def writer(self, obj: Object, clock: Clock) -> StatusWriter:
        """Return the writer of a run that has read `obj`."""
        return StatusWriter(self._shape, obj, clock)

    def send(self, client: Client, obj: Object, writer: StatusWriter) -> Steps[None]:
        """Write what the run has set to `obj`, if it differs, and if the server still has the object.

        A patch that left the object as it was is not repeated until object or patch changes: the server may not keep
        a field that its schema lacks. Raises Conflict if another writer has changed the object and the patch has a
        list; PluginError if the kind has no status subresource.
        """
        patch = writer.patch(obj)
        if patch is None:
            return
        text = msgspec.json.encode(patch["status"])
        if self._ineffective.get(obj.uid) == (obj.resource_version, text):
            return
        try:
            answer = yield from steps_of(Client.patch)(
                client, obj.api_version, obj.kind, obj.name, obj.namespace or None, patch, subresource="status"
            )
        except (Forbidden, NotFound) as error:
            # The server says the same of a missing object and of a missing subresource, after it has looked at rights.
            if (yield from lacks(client, obj.api_version, obj.kind, "status")):
                raise self._shape.missing() from None
            if isinstance(error, Forbidden):
                raise
            return
        if (answer.get("metadata") or {}).get("resourceVersion") == obj.resource_version:
            with self._lock:
                self._ineffective[obj.uid] = (obj.resource_version, text)
                self._ineffective.move_to_end(obj.uid)
                if len(self._ineffective) > _OBJECTS:
                    self._ineffective.popitem(last=False)
