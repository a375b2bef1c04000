"""Send the status of a run, at most once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ctrlhost.client import Client
from ctrlhost.client.subresources import lacks
from ctrlhost.controller.status import StatusWriter
from ctrlhost.declarative.settled import Settled
from ctrlhost.errors import Forbidden, NotFound, UnknownKind
from ctrlhost.transport.steps import steps_of

if TYPE_CHECKING:
    from ctrlhost.cache import Object
    from ctrlhost.clock import Clock
    from ctrlhost.controller.status_shape import StatusShape
    from ctrlhost.transport.steps import Steps


class StatusPatches:
    """Sends the status of the runs of one controller. Callable from any thread."""

    def __init__(self, shape: StatusShape) -> None:
        """Write to the kind of this shape."""
        self._shape = shape
        #: The versions of objects, and the patches that did not change them.
        self._ineffective = Settled()

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
        subresource = None if self._shape.in_object else "status"
        sent = (obj.resource_version, msgspec.json.encode(patch["status"]))
        if self._ineffective.include(obj.uid, sent):
            return
        try:
            answer = yield from steps_of(Client.patch)(
                client, obj.api_version, obj.kind, obj.name, obj.namespace or None, patch, subresource=subresource
            )
        except UnknownKind:
            raise
        except (Forbidden, NotFound) as error:
            # The server says the same of a missing object and of a missing subresource, after it has looked at rights.
            if subresource is not None and (yield from lacks(client, obj.api_version, obj.kind, "status")):
                raise self._shape.missing() from None
            if isinstance(error, Forbidden):
                raise
            return
        if (answer.get("metadata") or {}).get("resourceVersion") == obj.resource_version:
            self._ineffective.keep(obj.uid, sent)
