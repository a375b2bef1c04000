"""The pass over one object: what has happened to it, the handlers for that, and the write of what they changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import ctrlhost
from ctrlhost_kopf import lifecycles, spawning
from ctrlhost_kopf.diffs import diff
from ctrlhost_kopf.execution import Cause, ErrorsMode, Reason, deliver_results, execute_handlers
from ctrlhost_kopf.filters import changing, match, matching, prematch
from ctrlhost_kopf.indexing import index_object
from ctrlhost_kopf.patches import Patch
from ctrlhost_kopf.posting import LocalObjectLogger, ObjectLogger, operator_var
from ctrlhost_kopf.progress import State
from ctrlhost_kopf.registry import Handler, unique

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctrlhost_kopf.bodies import Body, RawEventType, Resource
    from ctrlhost_kopf.plugin import Operator

#: The priority of keys from a first list.
_LISTED = -100
#: Answers after which the same write can succeed.
_PASSING = (408, 409, 429)
_HANDLED = (Reason.CREATE, Reason.UPDATE, Reason.DELETE, Reason.RESUME)


@dataclass
class Memory:
    """What is kept of an object while it exists and the term lasts."""

    uid: str
    memo: Any
    body: Body
    #: Whether the object was there before the operator.
    listed: bool
    #: The version of the last event.
    version: str = ""
    handled_once: bool = False
    #: Whether the handlers of its deletion have ended; daemons may still hold it.
    deletion_handled: bool = False
    indexing_state: State | None = None
    #: When the essence has last changed, in seconds of the loop.
    idle_since: float = 0.0
    daemons: dict[str, Any] = field(default_factory=dict)
    forever_stopped: set[str] = field(default_factory=set)
    #: Functions of a patch that could not be called yet, and a patch whose write has failed for now.
    remaining: Patch | None = None
    unwritten: Patch | None = None
    #: How many passes in a row have failed, and when the next may be, in seconds since the epoch.
    failures: int = 0
    rests_until: float = 0.0


async def process(
    operator: Operator, ctx: ctrlhost.Context, resource: Resource, request: ctrlhost.Request
) -> ctrlhost.Result | None:
    """Make a pass over the object that a request names, and over the former one of that name if it is gone."""
    operator_var.set(operator)
    obj, key = ctx.get(request), (resource, request.namespace, request.name)
    memory = operator.memories.get(key)
    if memory is not None and (obj is None or obj.uid != memory.uid):
        del operator.memories[key]
        await _Pass(operator, resource, memory, "DELETED", event=True).run()
        await spawning.forget(memory)
        memory = None
    if obj is None:
        return None
    body = ctrlhost.plain(obj)
    if memory is None:
        memory = operator.remember(resource, body, listed=ctx.priority == _LISTED)
    memory.body.replace_with(body)
    if (rest := memory.rests_until - operator.time()) > 0:
        return ctrlhost.Result(requeue_after=rest)
    try:
        delays = await _handle(operator, resource, memory, ctx, obj.resource_version)
    except Exception as error:
        if isinstance(error, ctrlhost.CtrlhostError) and not _is_refused(error):
            raise
        # As under kopf, nothing is called until the object changes, and not at once then.
        pauses = [*operator.settings.queueing.error_delays] or [0]
        memory.rests_until = operator.time() + pauses[min(memory.failures, len(pauses) - 1)]
        memory.failures, memory.unwritten = memory.failures + 1, None
        if _is_refused(error):
            raise ctrlhost.TerminalError("the server refuses what the handlers have changed") from error
        LocalObjectLogger(body=body).exception("handling has ended early")
        raise ctrlhost.TerminalError("a filter or a storage of the operator has failed") from error
    memory.failures = 0
    return ctrlhost.Result(requeue_after=max(min(delays), 0.001)) if delays else None


async def _handle(
    operator: Operator, resource: Resource, memory: Memory, ctx: ctrlhost.Context, version: str
) -> list[float]:
    """Make a pass and write its patch; one whose write fails for now is written again before the next pass."""
    delays = [0.0]
    if memory.unwritten is None:
        type_: RawEventType = "MODIFIED" if memory.version else None if memory.listed else "ADDED"
        event, memory.version = memory.version != version, version
        present = _Pass(operator, resource, memory, type_, event=event)
        delays = await present.run()
        memory.unwritten = present.patch
    memory.remaining = await apply(operator, resource, memory.body, memory.unwritten, ctx.async_client)
    memory.unwritten = None
    return delays


def _is_refused(error: Exception) -> bool:
    """Return whether the server answers the same request so again."""
    return isinstance(error, ctrlhost.ApiError) and error.status < 500 and error.status not in _PASSING


class _Pass:
    """One pass over an object in one state; `event` is whether that state is new."""

    def __init__(
        self, operator: Operator, resource: Resource, memory: Memory, type_: RawEventType, *, event: bool
    ) -> None:
        self.operator, self.resource, self.memory, self.body = operator, resource, memory, memory.body
        self.type, self.event = type_, event
        self.patch = Patch(memory.remaining, body=memory.body)
        self.local_log = LocalObjectLogger(body=self.body)

    @cached_property
    def log(self) -> ObjectLogger:
        """Writes lines that may become events."""
        return ObjectLogger(body=self.body)

    async def run(self) -> list[float]:
        """Call what is to be called; return the seconds after which another pass is needed."""
        operator, registry, memory = self.operator, self.operator.registry, self.memory
        postponed, gone = bool(self.patch), self.type == "DELETED"
        if operator.indexers and self.event:
            await index_object(self._cause("index", self.local_log, patch=Patch()), memory, gone=gone)
        if self.event and self._has(registry.watching):
            await self._watch()
        if gone or not (self._blocked or self._has(registry.changing) or self._has(registry.spawning)):
            return []
        cause, delays = self._change(), list[float]()
        changes = any(prematch(handler, cause) for handler in registry.changing)
        if spawns := self._has(registry.spawning):
            delays += await spawning.spawn(operator, self._cause("spawn", self.log), memory, bool(cause.diff))
        if self._sets_finalizer(cause, spawns=spawns, changes=changes) or (changes and postponed):
            return delays
        if changes:
            delays += await self._handle(cause)
        if self._blocked and self.body.metadata.deletion_timestamp is not None and not delays:
            self.local_log.debug("removing the finalizer: the handlers have ended")
            self.patch.fns.append(self._release)
        return delays

    def _has(self, handlers: Iterable[Handler]) -> bool:
        return any(handler.selector is None or handler.selector.check(self.resource) for handler in handlers)

    def _cause(self, group: str, log: Any, **fields: Any) -> Cause:
        fields = {"patch": self.patch, "body": self.body, "resource": self.resource, **fields}
        return Cause(self.operator, log, self.memory.memo, group, **fields)

    async def _watch(self) -> None:
        extra = {"type": self.type, "event": {"type": self.type, "object": dict(self.body)}}
        cause = self._cause("event", self.local_log, extra=extra)
        handlers = matching(self.operator.registry.watching, cause)
        state = State({}, self.operator.time).for_handlers(None, handlers)
        outcomes = await execute_handlers(cause, handlers, state, lifecycles.all_at_once, ErrorsMode.IGNORED)
        deliver_results(outcomes, self.patch)

    def _change(self) -> Cause:
        """Return what has changed since the last configuration that was handled."""
        registry, persistence = self.operator.registry, self.operator.settings.persistence
        handlers = [*registry.watching, *registry.spawning, *registry.changing]
        fields = {handler.field: None for handler in handlers if handler.field and self._has([handler])}
        old = persistence.diffbase_storage.fetch(body=self.body)
        new = persistence.diffbase_storage.build(body=self.body, extra_fields=fields)
        old = None if old is None else persistence.progress_storage.clear(essence=old)
        new = persistence.progress_storage.clear(essence=new)
        changes = diff(old, new)
        initial = self.memory.listed and not self.memory.handled_once
        if self.body.metadata.deletion_timestamp is not None:
            reason = Reason.DELETE if self._blocked else Reason.FREE
        elif old is None:
            reason, initial = Reason.CREATE, False
        elif changes:
            reason = Reason.UPDATE
        else:
            reason = Reason.RESUME if initial else Reason.NOOP
        fields_of = {"reason": reason, "initial": initial, "old": old, "new": new, "diff": changes}
        return self._cause("change", self.log, **fields_of)

    @property
    def _blocked(self) -> bool:
        finalizers = self.body.metadata.get("finalizers") or ()
        return self.operator.settings.persistence.finalizer in finalizers

    def _sets_finalizer(self, cause: Cause, *, spawns: bool, changes: bool) -> bool:
        """Add or remove the finalizer if that is due; return whether it is, as no change is handled then."""
        registry, stopped = self.operator.registry, self.memory.forever_stopped
        spawning_cause = self._cause("spawn", self.log)
        needed = (
            spawns
            and any(h.id not in stopped and match(h, spawning_cause) for h in registry.spawning if h.requires_finalizer)
        ) or (changes and any(prematch(h, cause) for h in registry.changing if h.requires_finalizer))
        if needed and not self._blocked and self.body.metadata.deletion_timestamp is None:
            self.local_log.debug("adding the finalizer")
            self.patch.fns.append(self._hold)
            return True
        if not needed and self._blocked:
            self.local_log.debug("removing the finalizer: no handler needs it")
            self.patch.fns.append(self._release)
            return True
        return False

    def _hold(self, body: dict[str, Any]) -> None:
        finalizers = body.setdefault("metadata", {}).setdefault("finalizers", [])
        if (finalizer := self.operator.settings.persistence.finalizer) not in finalizers:
            finalizers.append(finalizer)

    def _release(self, body: dict[str, Any]) -> None:
        finalizer = self.operator.settings.persistence.finalizer
        kept = [name for name in body["metadata"].pop("finalizers", ()) if name != finalizer]
        body["metadata"] |= {"finalizers": kept} if kept else {}

    async def _handle(self, cause: Cause) -> list[float]:
        """Call the handlers of a change; return the seconds until each that has not ended is due."""
        operator, persistence = self.operator, self.operator.settings.persistence
        if cause.reason is Reason.DELETE and self.memory.deletion_handled:
            return []
        handlers = changing(operator.registry.changing, cause) if cause.reason in _HANDLED else []
        delays: list[float] = []
        if handlers:
            storage = persistence.progress_storage
            owned = unique(handler for handler in operator.registry.changing if self._has([handler]))
            state = State.of_storage(self.body, storage, owned, operator.time).for_handlers(cause.reason, handlers)
            if state.superseded:
                self.log.info("%s is superseded by %s", ", ".join(state.superseded), cause.reason)
                state = state.repurposed(handlers)
            if state.superseded:
                state.purge(self.body, self.patch, storage, owned)
            lifecycle = operator.lifecycle or lifecycles.get_default_lifecycle()
            outcomes = await execute_handlers(cause, handlers, state, lifecycle)
            state = state.with_outcomes(outcomes)
            state.store(self.body, self.patch, storage)
            deliver_results(outcomes, self.patch)
            delays = state.delays
            if not state.done:
                return delays
            state.purge(self.body, self.patch, storage, owned)
            self.log.info("%s is handled", str(cause.reason).capitalize())
        if cause.reason in _HANDLED:
            if cause.new is not None and cause.old != cause.new:
                persistence.diffbase_storage.store(body=self.body, patch=self.patch, essence=cause.new)
            self.memory.handled_once = True
            self.memory.deletion_handled = cause.reason is Reason.DELETE
        return delays


async def apply(
    operator: Operator, resource: Resource, body: Body, patch: Patch, client: ctrlhost.AsyncClient | None = None
) -> Patch | None:
    """Write a patch: its values at once, then what its functions change; return those that met another change.

    An object that is gone is left alone.
    """
    if not patch:
        return None
    operator.settings.persistence.progress_storage.touch(body=body, patch=patch, value=None)
    client = client or ctrlhost.AsyncClient(operator.host.client)
    meta, has_status = body.metadata, "status" in resource.subresources
    target = (resource.api_version, resource.kind, meta.name, meta.namespace)
    written: Any = None
    try:
        for part, subresource in _parts(patch, has_status=has_status):
            written = await client.patch(*target, part, subresource=subresource)
        base = dict(body) if written is None else written
        changes = Patch(fns=patch.fns).as_json_patch(base)
        for subresource in (None, "status"):
            chosen = [change for change in changes if _is_of(change["path"], subresource, has_status=has_status)]
            version = (written or base)["metadata"]["resourceVersion"]
            test = {"op": "test", "path": "/metadata/resourceVersion", "value": version}
            try:
                if chosen:
                    written = await client.patch(*target, [test, *chosen], type="json", subresource=subresource)
            except (ctrlhost.Conflict, ctrlhost.Invalid):
                if (await client.get(*target))["metadata"]["resourceVersion"] == version:
                    raise
                return Patch(fns=patch.fns)
    except ctrlhost.NotFound:
        pass
    return None


def _is_of(path: str, subresource: str | None, *, has_status: bool) -> bool:
    """Return whether a change of a field is written to this subresource, or to the object itself."""
    return (has_status and f"{path}/".startswith("/status/")) is (subresource == "status")


def _parts(patch: Patch, *, has_status: bool) -> Iterable[tuple[dict[str, Any], str | None]]:
    """Yield the merge patches of the object and of its status, where that is a subresource."""
    part = {name: value for name, value in patch.items() if not has_status or name != "status"}
    if part:
        yield part, None
    if has_status and patch.get("status") is not None:
        yield {"status": patch["status"]}, "status"
