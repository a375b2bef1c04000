"""What the host writes around the author's function: finalizers before and after it, the status after it."""

from __future__ import annotations

import logging
from asyncio import CancelledError
from typing import TYPE_CHECKING, Any

from ctrlhost.controller.error_groups import leaves
from ctrlhost.controller.results import RunAgain
from ctrlhost.coordination.writes import causes
from ctrlhost.declarative.leftovers import record_removal
from ctrlhost.declarative.prune import delete_tracked
from ctrlhost.errors import Conflict, CtrlhostError, NotLeading, PluginRestarted, Stale

if TYPE_CHECKING:
    from ctrlhost.cache import Object
    from ctrlhost.controller.context import Context
    from ctrlhost.controller.status import StatusWriter
    from ctrlhost.declarative.finalizers import Finalizer
    from ctrlhost.declarative.hosted import HostedController
    from ctrlhost.request import Result
    from ctrlhost.transport.steps import Steps

log = logging.getLogger("ctrlhost.controller")


class OwnPatches:
    """The patches of one run that the host sends for the author. All that sends requests is written as steps.

    `find` is called before the author's function, then `succeeded` or `failed`. A conflict of a patch runs the key
    again, and counts as a failure after five in a row.
    """

    __slots__ = ("_context", "_hosted", "_patched", "_primary", "_status", "finalizer")

    def __init__(self, hosted: HostedController, context: Context[Any, Any]) -> None:
        """Prepare a run of the request that is in the context."""
        self._hosted = hosted
        self._context = context
        #: The finalizer whose function the run calls; None for the reconciler.
        self.finalizer: Finalizer | None = None
        self._primary: Object | None = None
        self._status: StatusWriter | None = None
        #: The version that was patched last.
        self._patched = ""

    def status(self, obj: Object) -> StatusWriter:
        """Return the writer of the status of the object that the run has read."""
        if self._status is None:
            self._status = self._hosted.statuses.writer(obj, self._context.clock)
        return self._status

    def find(self) -> Steps[Object | None]:
        """Return the cached object with the finalizers that it is to have now; None if it is gone.

        Of an object that is being deleted, choose the finalizer whose function is to be called.
        """
        context, key, hosted = self._context, self._context.request, self._hosted
        stored = yield from hosted.conflicts.caught_up(key, lambda: context.get(key))
        # Already here: an error may be about it.
        self._primary = stored
        if stored is not None and hosted.finalizers:
            self._patched = stored.resource_version
            try:
                if stored.deletion_timestamp is None:
                    stored = yield from self._keep_finalizers(stored)
                else:
                    stored, self.finalizer = yield from self._next_finalizer(stored)
            except Conflict as error:
                raise hosted.conflicts.lost(key, self._patched, error) from error
        if stored is None:
            hosted.finalizers.gone(key)
            yield from self._release()
        else:
            hosted.events.returned(key)
        if stored is None or (stored.deletion_timestamp is not None and self.finalizer is None):
            # Perhaps nothing is called that could write.
            hosted.conflicts.over(key)
        self._primary = stored
        return stored

    def _next_finalizer(self, obj: Object) -> Steps[tuple[Object | None, Finalizer | None]]:
        """Return the object and the finalizer whose function is to be called; that of the host ends here."""
        hosted, key, client = self._hosted, self._context.request, self._context.client
        stored, due = yield from hosted.finalizers.next(client, key, obj, hosted.typed)
        if stored is None or due is None or due is not hosted.tracking:
            return stored, due
        yield from delete_tracked(hosted.owned, self._context, stored)
        hosted.finalizers.succeeded(key, stored.uid, due)
        return (yield from hosted.finalizers.next(client, key, stored, hosted.typed))

    def _keep_finalizers(self, obj: Object) -> Steps[Object | None]:
        """Add and take off finalizers as the object needs them; an event names those that were taken off."""
        hosted, context = self._hosted, self._context
        now = yield from hosted.finalizers.keep(context.client, obj, hosted.typed)
        if now is not None and now is not obj:
            removed = [name for name in obj.finalizers if name in hosted.finalizers.names - set(now.finalizers)]
            if removed:
                record_removal(context, now, removed, "`when` is no longer true for the object")
        return now

    def _release(self) -> Steps[None]:
        """Take the finalizers off an object that is not cached because it is no longer selected."""
        try:
            yield from self._hosted.leftovers.release(self._context)
        except Conflict as error:
            raise RunAgain(str(error)) from error

    def succeeded(self, result: Result | None) -> Steps[None]:
        """Write the status, and remove the finalizer whose function has ended."""
        hosted, key, finalizer, primary = self._hosted, self._context.request, self.finalizer, self._primary
        ended = finalizer is not None and (result is None or result.is_zero())
        if ended and finalizer is not None and primary is not None:
            hosted.finalizers.succeeded(key, primary.uid, finalizer)
        try:
            yield from self._send_status()
            if ended:
                yield from self._remove_finalizer()
        except Conflict as error:
            raise hosted.conflicts.lost(key, self._patched, error) from error
        hosted.conflicts.over(key)

    def write_status(self) -> Steps[None]:
        """Write the status within the run; after a conflict the end of the run does."""
        try:
            yield from self._send_status()
        except Conflict as error:
            log.debug("the status of %s was changed meanwhile: %s", self._context.request, error)

    def failed(self, error: BaseException) -> Steps[None]:
        """Write the status of a run that has failed with `error`, so that it can say why; that fails with a log line.

        Nothing is written after the end of the term, behind the cache, or after a cancellation.
        """
        if any(isinstance(cause, _ENDS_WRITING) for leaf in leaves(error) for cause in causes(leaf)):
            return
        try:
            yield from self._send_status()
        except CtrlhostError as failure:
            log.warning("the status of %s was not written: %s", self._context.request, failure)

    def _send_status(self) -> Steps[None]:
        if self._status is not None and (current := self._current()) is not None:
            self._patched = current.resource_version
            yield from self._hosted.statuses.send(self._context.client, current, self._status)

    def _remove_finalizer(self) -> Steps[None]:
        """Remove the finalizer whose function has succeeded; the next one has a run of its own."""
        hosted, key, current = self._hosted, self._context.request, self._current()
        if current is None:
            return
        self._patched = current.resource_version
        _, due = yield from hosted.finalizers.next(self._context.client, key, current, hosted.typed)
        if due is not None:
            hosted.conflicts.over(key)
            raise RunAgain(f"the finalizer {due.name} is next")

    def _current(self) -> Object | None:
        """Return the object as it is cached now, with the plugin's own writes; None if it is gone."""
        current, primary = self._context.get(self._context.request), self._primary
        return current if current is not None and primary is not None and current.uid == primary.uid else None


#: Errors after which nothing may be written, or nothing that is based on the cache.
_ENDS_WRITING = (NotLeading, PluginRestarted, Stale, CancelledError, GeneratorExit)
