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
from ctrlhost_kopf.indexing import Values, index_object
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
        self.indexers: dict[str, Values] = {}
        self.memories: dict[tuple[Resource, str, str], Memory] = {}
        #: Done when the handlers of on.startup have ended, and when those of on.cleanup have.
        self.ready: Future[None] = Future()
        self.stopped: Future[None] = Future()
        self._kinds: dict[Resource, tuple[ctrlhost.ControllerHandle, ctrlhost.Informer]] = {}
        self._listed: set[str] = set()
        self._term: int | None = None
        self._lock = asyncio.Lock()
        #: Whether the handlers of on.startup have succeeded.
        self._started = False
        #: Whether the file has called `kopf.run`.
        self.claimed = threading.Event()
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
        selectors = {handler.selector: None for handler in self.registry.resource_handlers if handler.selector}
        for selector in selectors:
            resource = _resource_of(selector)
            # Without a group it can be that of any.
            yield ctrlhost.Permission(
                "*" if selector.group is None else selector.group, [resource, f"{resource}/status"], _WRITES
            )

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
        self.host, self._term, self._lock = plugin, None, asyncio.Lock()
        self._started = False
        self.memories.clear()
        self._kinds.clear()
        plugin.add_cleanup(partial(_finish, self.stopped))
        plugin.add_cleanup(self._clean_up)
        running.set_up(self, plugin)
        if plugin.offline:
            return
        handled, missing, kinds = self._ask()
        if missing and self.registry.activities["startup"]:
            # It may install them. The next start is the next attempt: a setup that waits would hold up a shutdown.
            plugin.submit(self._start_up(retries=False)).result()
            handled, missing, kinds = self._ask()
        self._check(handled, missing)
        if self.registry.webhooks:
            admission.register(self, plugin, kinds)
        if self.registry.indexing:
            plugin.start_together()
        for resource, handlers in handled.items():
            known = any(other.plural == resource.plural and other.group == resource.group for other in self._kinds)
            name = repr(resource) if known else f"{resource.plural}.{resource.group}".strip(".")
            selector = _label_selector(handlers)
            names = (resource.api_version, resource.kind)
            source = ctrlhost.For(*names, label_selector=selector)
            handle = plugin.add_controller(name, partial(self._reconcile, resource), source, workers=_WORKERS)
            self._kinds[resource] = (handle, plugin.informer(*names, label_selector=selector))

    def _ask(self) -> tuple[dict[Resource, list[Handler]], list[Selector], list[Resource]]:
        """Return the kinds with their handlers, the selectors of kinds that are not served, and all kinds."""
        kinds = [_resource(kind) for kind in self.host.client.kinds()]
        handled: dict[Resource, list[Handler]] = {}
        missing: dict[Selector, None] = {}
        for handler in self.registry.resource_handlers:
            selector = handler.selector or Selector()
            selected = [kind for kind in selector.select(kinds) if {"list", "watch", "patch"} <= kind.verbs]
            if not selected:
                missing[selector] = None
            for kind in selected:
                handled.setdefault(kind, []).append(handler)
        return handled, [*missing], kinds

    def _check(self, handled: Mapping[Resource, Any], missing: Sequence[Selector]) -> None:
        """Warn of kinds that the server does not serve; PluginError if it serves none."""
        if missing and not handled:
            hint = "install the CustomResourceDefinition; the plugin is started again"
            raise ctrlhost.PluginError(self.name, f"the server serves none of {missing}", hint=hint)
        if missing:
            self.host.log.warning("the server does not serve %s; looked for again at the next start", missing)

    @ctrlhost.hookimpl
    def ctrlhost_synced(self, plugin: ctrlhost.PluginContext) -> None:
        """Call the handlers of on.startup, and index what is cached."""
        plugin.submit(self._start()).result()
        _finish(self.ready)

    async def _start(self) -> None:
        if not self._started:
            await self._start_up(retries=True)
        if self.host.term is not None:
            await self._enter(self.host.term)

    async def _start_up(self, *, retries: bool) -> None:
        await self.run_activity("startup", retries=retries)
        self._started = True
        await running.report(self)

    @ctrlhost.hookimpl
    def ctrlhost_elected(self, plugin: ctrlhost.PluginContext) -> None:
        """Begin another term."""
        plugin.submit(self._enter(plugin.term)).result()

    @ctrlhost.hookimpl
    def ctrlhost_deposed(self, plugin: ctrlhost.PluginContext) -> None:
        """End timers and daemons: those of the next leader begin."""
        plugin.submit(spawning.stop_all(self, DaemonStoppingReason.OPERATOR_PAUSING)).result()

    @ctrlhost.hookimpl
    def ctrlhost_stopping(self, plugin: ctrlhost.PluginContext) -> None:
        """End timers and daemons."""
        plugin.submit(spawning.stop_all(self, DaemonStoppingReason.OPERATOR_EXITING)).result()

    async def _enter(self, term: int | None) -> None:
        """Handle all objects anew in another term: another replica may have handled them meanwhile."""
        async with self._lock:
            if term != self._term:
                first, self._term = self._term is None, None
                await self._begin()
                self._term = term
                for handle, informer in () if first else self._kinds.values():
                    handle.enqueue_many([ctrlhost.Request(obj.name, obj.namespace) for obj in informer.lister.list()])

    async def _begin(self) -> None:
        """Forget the former term, and index the objects that are cached: they were there before the operator."""
        self.memories.clear()
        self.indexers = {handler.id: Values() for handler in self.registry.indexing}
        operator_var.set(self)
        cached = [(kind, obj) for kind, (_, informer) in self._kinds.items() for obj in informer.lister.list()]
        self._listed = {obj.uid for _, obj in cached}
        for kind, obj in cached if self.registry.indexing else ():
            if any(handler.selector is not None and handler.selector.check(kind) for handler in self.registry.indexing):
                memory = self.remember(kind, ctrlhost.plain(obj))
                log = LocalObjectLogger(body=memory.body, settings=self.settings)
                cause = Cause(self, log, memory.memo, "index", resource=kind, body=memory.body, patch=Patch())
                await index_object(cause, memory, gone=False)

    async def _reconcile(
        self, resource: Resource, ctx: ctrlhost.Context, request: ctrlhost.Request
    ) -> ctrlhost.Result | None:
        if ctx.term != self._term:
            await self._enter(ctx.term)
        return await process(self, ctx, resource, request)

    async def run_activity(self, name: str, *, retries: bool = True) -> dict[str, Any]:
        """Call the handlers of on.startup, on.cleanup or on.probe; return their results, raise the first error.

        Without `retries`, an error is raised that another attempt could end.
        """
        operator_var.set(self)
        handlers = unique(self.registry.activities[name])
        extra = {"activity": name, "settings": self.settings}
        cause = Cause(self, logging.getLogger(f"kopf.activities.{name}"), self.memo, name, extra=extra)
        state, results = State({}, self.time).for_handlers(None, handlers), {}
        while not state.done:
            outcomes = await execute_handlers(cause, handlers, state, lifecycles.all_at_once)
            state = state.with_outcomes(outcomes)
            for key, outcome in outcomes.items():
                if outcome.exception is not None and (outcome.final or not retries):
                    raise ctrlhost.PluginError(self.name, f"on.{name}: {outcome.exception}") from outcome.exception
                results[key] = outcome.result
            await asyncio.sleep(min(state.delays, default=0))
        return results

    def _clean_up(self) -> None:
        try:
            if self._started:
                self.host.submit(self.run_activity("cleanup")).result()
        finally:
            self.settings.execution.executor.shutdown(wait=False)


def _finish(future: Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _resource(kind: Any) -> Resource:
    return Resource(
        kind.group,
        kind.version,
        kind.plural,
        kind.kind,
        kind.singular,
        frozenset(kind.short_names),
        frozenset(kind.categories),
        frozenset(kind.subresources),
        kind.namespaced,
        kind.preferred,
        frozenset(kind.verbs),
    )


def _resource_of(selector: Selector) -> str:
    """Return the plural that a selector means, for rights: `*` for several kinds."""
    if not isinstance(selector.name, str) or selector.which in ("category", "shortcut"):
        return "*"
    name = selector.name.lower()
    return name if selector.which in (None, "plural") and selector.name == name else f"{name}s"


def _label_selector(handlers: Iterable[Handler]) -> str | None:
    """Return the labels that all handlers of a kind want, if none of them must know when an object loses them."""
    wanted = [handler.labels or {} for handler in handlers]
    constant = all(isinstance(value, str) for labels in wanted for value in labels.values())
    leaves = any(handler.group != "change" or handler.requires_finalizer for handler in handlers)
    if not constant or leaves or any(labels != wanted[0] for labels in wanted):
        return None
    return ",".join(f"{key}={value}" for key, value in wanted[0].items()) or None
