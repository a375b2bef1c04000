"""One run of a declared controller: find the object, call the function, end the run."""

from __future__ import annotations

import inspect
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import ctrlhost.conditions as conditions
from ctrlhost.controller.caches import Cache
from ctrlhost.controller.error_groups import decisive, leaves
from ctrlhost.controller.results import InvalidStatus
from ctrlhost.coordination.writes import causes
from ctrlhost.declarative.awaits import Call, Calls
from ctrlhost.declarative.events import gone, record
from ctrlhost.declarative.own_patches import OwnPatches
from ctrlhost.declarative.prune import prune
from ctrlhost.duration import in_seconds
from ctrlhost.errors import InvalidObject, NotFound, NotOwned, PluginError, TerminalError
from ctrlhost.request import Result

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import EllipsisType

    from ctrlhost.cache import Object
    from ctrlhost.controller.context import Context
    from ctrlhost.controller.status import StatusWriter
    from ctrlhost.declarative.declaration import DeclaredFunction
    from ctrlhost.declarative.ensure import Adopt
    from ctrlhost.declarative.hosted import HostedController
    from ctrlhost.models.kinds import KindRef
    from ctrlhost.models.typed_objects import AnyObject
    from ctrlhost.request import Request
    from ctrlhost.transport.steps import Steps


#: The condition of an object one of whose children belongs to somebody else.
_CONFLICT = "OwnershipConflict"
#: The condition of an object that does not fit its model, and its reason, which is that of the event, too.
_READY, _DOES_NOT_FIT = "Ready", "InvalidObject"
#: The type of what was not awaited, in messages such as `'Call' object is not iterable`.
_CALL = re.compile(rf"\b{Call.__name__}\b")


class Run:
    """One run; `Context` and `AsyncContext` delegate to it. What sends requests is written as steps.

    The order is `begin`, then the author's function, `declared`, if `begin` returned true, then `end`.
    """

    __slots__ = ("_patches", "_primary", "calls", "context", "hosted", "obj")

    def __init__(self, hosted: HostedController, context: Context[Any, Any]) -> None:
        """Prepare a run of the request that is in the context."""
        self.hosted = hosted
        self.context = context
        #: The calls of an `async def` that are to be awaited.
        self.calls = Calls(hosted.host.name, context.run_name)
        self._patches = OwnPatches(hosted, context)
        self._primary: Object | None = None
        #: What the author's function gets: a struct, an `Object`, or None for an object that is gone.
        self.obj: Any = None

    @property
    def object(self) -> Object:
        """The reconciled object as it was cached when the run began; NotFound if it is gone."""
        if self._primary is None:
            raise NotFound(f"{self.hosted.kind} {self.context.request} is gone")
        return self._primary

    @property
    def settings(self) -> Any:
        """The plugin's settings."""
        return self.hosted.host.settings

    @property
    def state(self) -> Any:
        """What the plugin's `setup` returned for this host."""
        return self.hosted.host.state

    @property
    def declared(self) -> DeclaredFunction:
        """The author's function that the run calls: the reconciler, or that of a finalizer."""
        finalizer = self._patches.finalizer
        return self.hosted.controller.declared if finalizer is None else finalizer.declared

    @property
    def status(self) -> StatusWriter:
        """The status that the run sets; NotFound if the object is gone."""
        return self._patches.status(self.object)

    def write_status(self) -> Steps[None]:
        """Write what the status is set to so far."""
        return self._patches.write_status()

    def event(
        self,
        reason: str,
        message: str,
        *,
        warning: bool = False,
        about: Any = None,
        action: str | None = None,
        once: bool = False,
    ) -> bool:
        """Record an event about an object, by default the reconciled one; return whether it was recorded."""
        memory = self.hosted.events if once else None
        if about is None and self._primary is None:
            request = self.context.request
            about = gone(self.hosted.kind, request, 0 if memory is None else memory.gone(request))
        elif about is None:
            about = self._primary
        return record(self.context.events, about, reason, message, warning=warning, action=action, once=memory)

    def cache(self, kind: KindRef[Any]) -> Cache[Any]:
        """Return the cached objects of a kind that the controller declares."""
        request, primary = self.context.request, self._primary
        return Cache(
            self.hosted.cached(kind, self.context), request.namespace, primary.uid if primary is not None else ""
        )

    def ensure(self, obj: AnyObject, *, owner: AnyObject | EllipsisType | None, adopt: Adopt) -> Steps[Object]:
        """Apply an object if that changes something, and return the live one."""
        return self.hosted.ensure.steps(self.context, self._primary, obj, owner=owner, adopt=adopt)

    def prune(self, kind: KindRef[Any], *, keep: Iterable[AnyObject | str]) -> Steps[list[Request]]:
        """Delete the owned objects of a kind that are not to be kept."""
        return prune(self.hosted.owned, self.context, self._primary, kind, keep)

    def begin(self) -> Steps[bool]:
        """Find and decode the object, with its finalizers; return whether the author's function is to be called."""
        try:
            primary = self._primary = yield from self._patches.find()
            if primary is None:
                return self.hosted.gone
            if primary.deletion_timestamp is not None and not self.hosted.gone and self._patches.finalizer is None:
                return False
            self.obj = self._typed(primary)
        except InvalidObject as error:
            self._does_not_fit(error)
            in_status = error.problem.startswith("status")
            if self.hosted.shape.reports and not in_status:
                self._patches.status(error.object).condition(_READY, False, _DOES_NOT_FIT, error.problem)
                yield from self._patches.failed(error)
            kind = InvalidStatus if in_status else TerminalError
            hint = "; ".join(filter(None, ("it is reconciled again when it changes", self._way_out(error.object))))
            raise kind(error.message, hint=hint) from None
        self._fits()
        return True

    def _typed(self, obj: Object) -> Any:
        """Return the object as its struct, or as it is for a finalizer that takes what does not fit."""
        try:
            return self.hosted.typed(obj)
        except InvalidObject:
            finalizer = self._patches.finalizer
            if finalizer is None or not finalizer.takes_objects:
                raise
            return obj

    def end(self, result: Any, error: BaseException | None = None) -> Steps[Any]:
        """End the run with what the function returned or raised, and return the result; the error is raised again.

        Writes the status in both cases.
        """
        forgotten, raised = self.calls.end(), error
        if error is None:
            self._owns_all()
        else:
            for leaf in leaves(error):
                if isinstance(leaf, NotOwned) and self._primary is not None:
                    self.context.events.warning(self._primary, "NotOwned", leaf.message, action="Reconcile")
                    self._does_not_own(leaf)
                if isinstance(leaf, InvalidObject):
                    self._does_not_fit(leaf)
            error = decisive(error)
        if forgotten and (error is None or _uses_a_call(error)):
            used, error = (
                error,
                self._mistake(
                    f"{forgotten[0].name}(…) at {forgotten[0].place} was not awaited",
                    f"write `await {forgotten[0].name}(…)`",
                ),
            )
            error.__cause__ = used
        if error is None and result is not None and not isinstance(result, Result):
            error = self._mistake(*_wrong_result(result))
        if error is not None:
            yield from self._patches.failed(raised or error)
            raise error
        yield from self._patches.succeeded(result)
        return result

    def _does_not_own(self, error: NotOwned) -> None:
        """Set the condition of an object whose child belongs to somebody else, where its kind has conditions."""
        if self.hosted.shape.reports:
            self.status.condition(_CONFLICT, True, "NotOwned", error.message)

    def _owns_all(self) -> None:
        """End the condition, if the object has it."""
        if self._primary is not None and self.hosted.shape.reports:
            condition = conditions.get(self._primary, _CONFLICT)
            if condition is not None and condition.get("status") == "True":
                self.status.condition(_CONFLICT, False, "Owned")

    def _does_not_fit(self, error: InvalidObject) -> None:
        """Record an event about an object that does not fit its model, and about what holds its deletion."""
        obj, problem, action = error.object, error.problem, None
        if obj.deletion_timestamp is not None:
            # Events that differ in nothing but their text are one.
            action = "Finalize"
            problem = "; ".join(filter(None, (problem, self._way_out(obj))))
        self.context.events.warning(obj, _DOES_NOT_FIT, problem, action=action)

    def _way_out(self, obj: Object) -> str:
        """Return the command that lets an object go whose finalizer cannot be called; empty for any other object."""
        held = next((name for name in self.hosted.finalizers.in_order if name in obj.finalizers), "")
        if obj.deletion_timestamp is None or not held:
            return ""
        where = f" --namespace {obj.namespace}" if obj.namespace else ""
        command = f"ctrlhost finalizers {obj.api_version}/{obj.kind}{where} --deleted --release {held}"
        return f"`{command}` lets it go"

    def _fits(self) -> None:
        """Take the condition off an object that fits its model again; its author sets it anew."""
        if self._primary is not None and self.hosted.shape.reports:
            condition = conditions.get(self._primary, _READY)
            if condition is not None and condition.get("reason") == _DOES_NOT_FIT:
                self.status.remove_condition(_READY)

    def _mistake(self, what: str, hint: str) -> PluginError:
        """Return the error for a mistake in the author's function."""
        plugin, declared = self.hosted.host.name, self.declared
        return PluginError(plugin, f"plugin {plugin}: {declared.place}: {declared.name}: {what}", hint=hint)


def _uses_a_call(error: BaseException) -> bool:
    """Return whether an error is about the use of what was not awaited, whose type it names."""
    return any(isinstance(cause, (TypeError, AttributeError)) and _CALL.search(str(cause)) for cause in causes(error))


def _wrong_result(result: Any) -> tuple[str, str]:
    """Return what is wrong with the result of a function, and the hint."""
    if inspect.iscoroutine(result) or isinstance(result, Call):
        # Else Python warns about it later, at another place.
        result.close()
        return "returned a coroutine that nothing awaits; make the function an `async def`", "or return None"
    is_number = isinstance(result, int | float | timedelta) and not isinstance(result, bool)
    if is_number or (isinstance(result, str) and _is_duration(result)):
        described, wanted = repr(result), f"ctrlhost.Result(requeue_after={result!r})"
    else:
        # Not the value: it may be a secret.
        described, wanted = repr(result) if isinstance(result, bool) else type(result).__name__, "ctrlhost.Result()"
    return f"returned {described}; return None or {wanted}", "the function returns None or ctrlhost.Result"


def _is_duration(text: str) -> bool:
    try:
        in_seconds(text)
    except ValueError:
        return False
    return True
