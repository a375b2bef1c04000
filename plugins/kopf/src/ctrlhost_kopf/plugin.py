"""A kopf operator as a ctrlhost plugin: a controller for each kind that has handlers."""

from __future__ import annotations

import asyncio
import copy
import logging
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import ctrlhost
from ctrlhost_kopf import admission, lifecycles, rights, running, spawning
from ctrlhost_kopf.bodies import Body, Memo, Resource
from ctrlhost_kopf.execution import Cause, execute_handlers
from ctrlhost_kopf.filters import label_selector
from ctrlhost_kopf.indexing import Index, index_object
from ctrlhost_kopf.patches import Patch
from ctrlhost_kopf.posting import LocalObjectLogger, operator_var
from ctrlhost_kopf.processing import Memory, process
from ctrlhost_kopf.progress import State
from ctrlhost_kopf.registry import Handler, OperatorRegistry, Selector, unique
from ctrlhost_kopf.settings import OperatorSettings
from ctrlhost_kopf.spawning import DaemonStoppingReason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

#: Objects of one kind that are handled at the same time; the operator's settings of the host override it.
_WORKERS = 32
_CRD = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
_WRITES = ("get", "list", "watch", "patch")


class Operator:
    """A kopf operator: its handlers, its settings, and what it remembers of objects. Runs as a plugin of ctrlhost."""

    host: ctrlhost.PluginContext

    def __init__(self, registry: OperatorRegistry, name: str) -> None:
        self.registry, self.name = registry, name
        #: What the host names the plugin.
        self.__name__ = name
        self.settings = OperatorSettings()
        self.memo: Any = Memo()
        #: Chooses the handlers of a pass; None for the default.
        self.lifecycle: Any = None
        self.indexers: dict[str, Index[Any, Any]] = {}
        self.memories: dict[tuple[Resource, str, str], Memory] = {}
        #: Done when the handlers of on.startup have ended, and when those of on.cleanup have.
        self.ready: Future[None] = Future()
        self.stopped: Future[None] = Future()
        self._kinds: dict[Resource, tuple[ctrlhost.ControllerHandle, ctrlhost.Informer]] = {}
        #: The names of all kinds that the server serves, as those of their CustomResourceDefinitions.
        self._names: set[str] = set()
        #: Whether a kind may come.
        self._awaits_kinds = False
        self._listed: set[str] = set()
        self._term: int | None = None
        #: Whether daemons begin: not any more when the term or the plugin ends.
        self.spawns = False
        self._lock = asyncio.Lock()
        #: Whether the handlers of on.startup have succeeded, and else why not. Set when they have, or the plugin ends.
        self._started, self.startup_error = False, ""
        self._settled = asyncio.Event()
        #: Whether the file has called `kopf.run`.
        self.claimed = threading.Event()
        #: Set when the file has been executed to its end.
        self.executed = threading.Event()
        #: The files of the operator, and the libraries that these import.
        self.sources: list[Path] = []
        self.libraries: set[str] = set()
        #: The daemons that have not ended, as uid and handler.
        self.running_daemons: set[tuple[str, str]] = set()

    def time(self) -> float:
        """Return the seconds since the epoch on the host's clock."""
        return self.host.clock.time()

    def post(self, reference: Mapping[str, Any], type_: str, reason: str, message: str) -> None:
        """Record an event; its type is Warning for anything but Normal and Debug."""
        metadata = {key: reference[key] for key in ("name", "namespace", "uid") if key in reference}
        about = {"apiVersion": reference.get("apiVersion"), "kind": reference.get("kind"), "metadata": metadata}
        record = self.host.events.normal if type_ in ("Normal", "Debug") else self.host.events.warning
        # Those of one action are a series, with the message of the first one.
        record(about, reason, message, action=message[:128] or reason)

    def remember(self, resource: Resource, body: dict[str, Any], *, listed: bool = False) -> Memory:
        """Return the new memory of an object."""
        metadata = body["metadata"]
        key = (resource, metadata.get("namespace") or "", metadata["name"])
        listed = listed or metadata["uid"] in self._listed
        memory = Memory(metadata["uid"], copy.copy(self.memo), Body(body), listed)
        self.memories[key] = memory
        return memory

    @ctrlhost.hookimpl
    def ctrlhost_permissions(self) -> Iterable[ctrlhost.Permission]:
        """Return the rights for the kinds of the handlers, and for events."""
        yield ctrlhost.Permission("events.k8s.io", ["events"], ["create", "patch"])
        yield ctrlhost.Permission("apiextensions.k8s.io", ["customresourcedefinitions"], ["list", "watch"])
        for selector in self._selectors:
            resources = [name for plural in rights.plurals_of(selector) for name in (plural, f"{plural}/status")]
            # Without a group it can be that of any.
            yield ctrlhost.Permission("*" if selector.group is None else selector.group, resources, _WRITES)

    @ctrlhost.hookimpl
    def ctrlhost_notes(self) -> list[str]:
        """Return what `ctrlhost manifests` says of the rights that no handler declares."""
        return rights.notes(self)

    @ctrlhost.hookimpl
    def ctrlhost_setup(self, plugin: ctrlhost.PluginContext) -> None:
        """Add a controller for each kind, which the server is asked for."""
        if self.stopped.done():
            # A restart.
            self.stopped, self.ready = Future(), Future()
            self.settings.execution.executor = ThreadPoolExecutor(self.settings.execution.max_workers)
        self.host, self._term = plugin, None
        self._started = False
        self._lock, self._settled = asyncio.Lock(), asyncio.Event()
        self.memories.clear()
        self._kinds.clear()
        self.indexers = {handler.id: Index() for handler in self.registry.indexing}
        plugin.add_cleanup(self._finish)
        plugin.add_cleanup(self._clean_up)
        plugin.add_task("startup", self._start)
        running.set_up(self, plugin)
        if plugin.offline:
            return
        kinds = [_resource(kind) for kind in plugin.client.kinds()]
        missing = self._serve(kinds)
        if missing:
            names = ", ".join(map(str, missing))
            plugin.log.warning("the server does not serve %s; waiting for a CustomResourceDefinition", names)
        self._awaits_kinds = bool(missing) or any(selector.is_open for selector in self._selectors)
        if self.registry.webhooks:
            admission.register(self, plugin, kinds)
        if self.registry.indexing:
            plugin.start_together()

    @property
    def _selectors(self) -> list[Selector]:
        handlers = self.registry.resource_handlers
        return list(dict.fromkeys(handler.selector for handler in handlers if handler.selector is not None))

    def _serve(self, kinds: Sequence[Resource]) -> list[Selector]:
        """Add a controller for each kind that has handlers and none yet; return the selectors that match no kind."""
        self._names = {f"{kind.plural}.{kind.group}" for kind in kinds}
        watched = [kind for kind in kinds if {"list", "watch"} <= kind.verbs]
        selected = {selector: selector.select(watched) for selector in self._selectors}
        refused: dict[Resource, str] = {}
        for selector, found in selected.items():
            if len(found) > 1 and not selector.is_open:
                refused |= dict.fromkeys(found, f"`{selector}` is ambiguous, name a group")
        handled: dict[Resource, list[Handler]] = {}
        for handler in self.registry.resource_handlers:
            for kind in selected[handler.selector] if handler.selector is not None else watched:
                handled.setdefault(kind, []).append(handler)
                if handler.group not in ("event", "index") and "patch" not in kind.verbs:
                    refused.setdefault(kind, "it cannot be patched")
        for kind, why in refused.items():
            if handled.pop(kind, None):
                self.host.log.warning("no handler is called for %r: %s", kind, why)
        for resource, handlers in handled.items():
            if resource in self._kinds:
                continue
            known = any(other.plural == resource.plural and other.group == resource.group for other in self._kinds)
            name = repr(resource) if known else f"{resource.plural}.{resource.group}".strip(".")
            labels = _label_selector(handlers)
            names = (resource.api_version, resource.kind)
            source = ctrlhost.For(*names, label_selector=labels)
            handle = self.host.add_controller(name, partial(self._reconcile, resource), source, workers=_WORKERS)
            self._kinds[resource] = (handle, self.host.informer(*names, label_selector=labels))
        return [selector for selector, found in selected.items() if not found]

    async def _notice(self, ctx: ctrlhost.Context, request: ctrlhost.Request) -> ctrlhost.Result | None:
        """Serve the kind of a CustomResourceDefinition that was not there before."""
        crd = ctx.get(request)
        conditions = crd.get_path("status", "conditions", default=()) if crd is not None else ()
        established = any(part["type"] == "Established" and part["status"] == "True" for part in conditions)
        if request.name in self._names or not established:
            return None
        self._serve([_resource(kind) for kind in await ctx.async_client.kinds()])
        # The server begins to serve a kind a moment after it has said so.
        return None if request.name in self._names else ctrlhost.Result(requeue_after=1)

    async def _start(self, _stop: threading.Event) -> None:
        """Call the handlers of on.startup, and begin: a task, since they may be retried for longer than a hook has."""
        try:
            await self.run_activity("startup")
        except ctrlhost.PluginError as error:
            self.startup_error = error.message
            raise
        self.startup_error = ""
        await running.report(self)
        self._started = True
        if self._awaits_kinds:
            # Only now: no other controller waits for the right to CRDs.
            crds = ctrlhost.For(*_CRD, reads=["status.conditions"], predicates=[])
            self.host.add_controller("kinds", self._notice, crds, needs_leader=False)
        if self.host.term is not None:
            await self._enter(self.host.term)
        self._settled.set()
        if not self.ready.done():
            self.ready.set_result(None)

    async def has_started(self) -> bool:
        """Wait until the handlers of on.startup have succeeded; False if the plugin ends before."""
        await self._settled.wait()
        return self._started

    def _finish(self) -> None:
        """End `kopf.run`, and wait a second for what the file does then: the process may end."""
        if not self.stopped.done():
            self.stopped.set_result(None)
            self.executed.wait(1.0)

    @ctrlhost.hookimpl
    def ctrlhost_elected(self, plugin: ctrlhost.PluginContext) -> None:
        """Begin another term."""
        if self._started:
            plugin.submit(self._enter(plugin.term)).result()

    @ctrlhost.hookimpl
    def ctrlhost_deposed(self, plugin: ctrlhost.PluginContext) -> None:
        """End timers and daemons: those of the next leader begin."""
        plugin.submit(spawning.stop_all(self, DaemonStoppingReason.OPERATOR_PAUSING)).result()

    @ctrlhost.hookimpl
    def ctrlhost_stopping(self, plugin: ctrlhost.PluginContext) -> None:
        """End timers and daemons, and what waits for on.startup."""
        plugin.submit(self._stop()).result()

    async def _stop(self) -> None:
        self._settled.set()
        await spawning.stop_all(self, DaemonStoppingReason.OPERATOR_EXITING)

    async def _enter(self, term: int | None) -> None:
        """Handle all objects anew in another term: another replica may have handled them meanwhile."""
        async with self._lock:
            if term != self._term:
                self.spawns = True
                first, self._term = self._term is None, None
                await self._begin()
                self._term = term
                for handle, informer in () if first else self._kinds.values():
                    handle.enqueue_many([ctrlhost.Request(obj.name, obj.namespace) for obj in informer.lister.list()])

    async def _begin(self) -> None:
        """Forget the former term, and index the objects that are cached: they were there before the operator."""
        self.memories.clear()
        for index in self.indexers.values():
            index.clear()
        operator_var.set(self)
        cached = [(kind, obj) for kind, (_, informer) in self._kinds.items() for obj in informer.lister.list()]
        self._listed = {obj.uid for _, obj in cached}
        for kind, obj in cached if self.registry.indexing else ():
            if any(handler.selector is not None and handler.selector.check(kind) for handler in self.registry.indexing):
                memory = self.remember(kind, ctrlhost.plain(obj))
                log = LocalObjectLogger(body=memory.body)
                cause = Cause(self, log, memory.memo, "index", resource=kind, body=memory.body, patch=Patch())
                await index_object(cause, memory, gone=False)

    async def _reconcile(
        self, resource: Resource, ctx: ctrlhost.Context, request: ctrlhost.Request
    ) -> ctrlhost.Result | None:
        if not await self.has_started():
            return None
        if ctx.term != self._term:
            await self._enter(ctx.term)
        return await process(self, ctx, resource, request)

    async def run_activity(self, name: str) -> dict[str, Any]:
        """Call the handlers of on.startup, on.cleanup or on.probe; return their results, raise the first error."""
        operator_var.set(self)
        handlers = unique(self.registry.activities[name])
        extra = {"activity": name, "settings": self.settings}
        cause = Cause(self, logging.getLogger(f"kopf.activities.{name}"), self.memo, name, extra=extra)
        state, results = State({}, self.time).for_handlers(None, handlers), {}
        while not state.done:
            outcomes = await execute_handlers(cause, handlers, state, lifecycles.all_at_once)
            state = state.with_outcomes(outcomes)
            for key, outcome in outcomes.items():
                if outcome.exception is not None and outcome.final:
                    raise ctrlhost.PluginError(self.name, f"on.{name}: {outcome.exception}") from None
                results[key] = outcome.result
            await asyncio.sleep(min(state.delays, default=0))
        return results

    def _clean_up(self) -> None:
        try:
            if self._started:
                self.host.submit(self.run_activity("cleanup")).result()
        finally:
            self.settings.execution.executor.shutdown(wait=False)


def _resource(kind: Any) -> Resource:
    fields = {name: getattr(kind, name) for name in ("group", "version", "plural", "kind", "singular")}
    fields |= {name: frozenset(getattr(kind, name)) for name in ("categories", "subresources", "verbs")}
    facts = {"namespaced": kind.namespaced, "preferred": kind.preferred}
    return Resource(shortcuts=frozenset(kind.short_names), **facts, **fields)


def _label_selector(handlers: Iterable[Handler]) -> str | None:
    """Return the labels that all handlers of a kind want, if none of them must know when an object loses them."""
    wanted = [handler.labels or {} for handler in handlers]
    constant = not any(callable(value) for labels in wanted for value in labels.values())
    leaves = any(handler.group != "change" or handler.requires_finalizer for handler in handlers)
    agree = constant and not leaves and all(labels == wanted[0] for labels in wanted)
    return label_selector(wanted[0]) or None if agree else None
