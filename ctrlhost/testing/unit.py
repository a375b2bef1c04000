"""One run of a controller's function without host and API server, for unit tests."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from ctrlhost.client import Client
from ctrlhost.controller.context import Context, ControllerScope
from ctrlhost.controller.metrics import ReconcileMetrics
from ctrlhost.controller.services import PluginServices
from ctrlhost.declarative.checks import check
from ctrlhost.declarative.reconciler import Reconciler
from ctrlhost.declarative.run import Run
from ctrlhost.declarative.wiring import hosted_controllers
from ctrlhost.events.recorder import reference
from ctrlhost.models.kinds import plural_of
from ctrlhost.models.model import to_dict
from ctrlhost.plugin.context import PluginContext
from ctrlhost.request import Request
from ctrlhost.testing.clock import ManualClock
from ctrlhost.testing.documents import documents
from ctrlhost.testing.object_store import ObjectStore
from ctrlhost.testing.unit_caches import UnitCaches
from ctrlhost.transport.steps import carry_out
from ctrlhost.workqueue import WorkQueue

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from ctrlhost.clock import Clock
    from ctrlhost.declarative.hosted import HostedController
    from ctrlhost.declarative.plugin import Plugin
    from ctrlhost.request import Result

    #: An object as a test writes it.
    Written: TypeAlias = str | os.PathLike[str] | Mapping[str, Any] | msgspec.Struct

_NAMESPACE = "default"


class RecordedEvent(NamedTuple):
    """One event that a run recorded."""

    #: `Normal` or `Warning`.
    type: str
    reason: str
    message: str
    #: Kind and name of the object that it is about.
    about: tuple[str, str]


class UnitContext(Context[Any, Any, Any]):
    """The context of one run, whose client and caches are objects in memory. For use by one thread."""

    def __init__(self, scope: ControllerScope, hosted: HostedController, key: Request, events: _Events) -> None:
        """Begin the run of a key; `context` calls this."""
        super().__init__(scope, 0)
        #: The events so far.
        self.recorded = events.recorded
        self.request = key
        self._hosted = hosted
        run = self.declared = Run(hosted, self)
        carry_out(run.begin())

    def run(self) -> Result | None:
        """Do a whole run as the host does, with finalizers and status; return the result of the function.

        Calls the function of a finalizer if the object is being deleted. What the function raises is raised again.
        An `async def` runs on an event loop of its own: RuntimeError on another one.
        """
        reconciler = Reconciler(self._hosted)
        if not self._hosted.controller.declared.is_async:
            return cast("Result | None", reconciler.reconcile(self, self.request))
        return cast("Result | None", asyncio.run(reconciler.reconcile_async(self, self.request)))


def context(
    plugin: Plugin[Any, Any],
    obj: Written,
    objects: Iterable[Written] = (),
    *,
    settings: Any = None,
    state: Any = None,
    controller: str = "",
    clock: Clock | None = None,
) -> UnitContext:
    """Return the context of a run of `obj`, without host and API server, for a unit test.

    `obj` and `objects` are paths, YAML texts, mappings or models, as for `HostUnderTest.apply`. They are in the caches,
    and what `ctx.client` reads; writes change both at once. Call the function with the context, or `ctx.run()`, and
    look at `ctx.client` and at `ctx.recorded`, the events.

    `settings` is by default the struct without arguments, `clock` a ManualClock. `state` is `ctx.state`: functions of
    `@plugin.setup` are not called. ValueError if no controller reconciles the kind, or several do and `controller` does
    not name one, or for what is no object; PluginLoadError for mistakes in the plugin.
    """
    check(plugin.declaration, plugin.__name__)
    if settings is None and plugin.declaration.settings is not None:
        settings = plugin.declaration.settings()
    clock, events, caches = clock or ManualClock(), _Events(), UnitCaches()
    store = ObjectStore(clock, caches.changed)
    client = Client.over(store, namespace=_NAMESPACE)
    # What follows has no informers and sends no events.
    nothing, recorder = cast("Any", None), cast("Any", events)
    services = PluginServices(client, nothing, clock, recorder, threading.Event(), {}, ReconcileMetrics())
    host = PluginContext(plugin.__name__, settings, services)
    host.state = state
    crds = plugin.ctrlhost_crds()
    own = list(_contents(obj))
    if len(own) != 1:
        raise ValueError(f"a run is of one object, not of {len(own)}; others go to `objects=`")
    contents = own + [content for written in objects for content in _contents(written)]
    hosted = _chosen(hosted_controllers(plugin.declaration, host, crds), own[0], controller)
    client.resources.add_crds([*_assumed_crds(hosted, contents), *crds])
    caches.add(hosted.kinds)
    keys = [_put(store, client, content) for content in contents]
    return UnitContext(_scope(host, hosted, caches), hosted, keys[0], events)


def _scope(host: PluginContext, hosted: HostedController, caches: UnitCaches) -> ControllerScope:
    listers = caches.listers()
    return ControllerScope(
        plugin=host.scope,
        controller=f"{host.name}/{hosted.controller.name}",
        queue=WorkQueue(),
        attempts={},
        clients=host.scope.clients,
        needs_leader=bool(hosted.options.get("needs_leader", True)),
        self_events=None,
        events=host.events,
        log=host.log,
        primary=listers[hosted.kind[:2]],
        listers=listers,
    )


class _Events:
    """Records the events of a plugin in place of a host's recorder."""

    def __init__(self) -> None:
        self.recorded: list[RecordedEvent] = []

    def record(
        self, _controller: str, obj: Mapping[str, Any], type_: str, reason: str, note: str, **_options: Any
    ) -> None:
        about = reference(obj)
        self.recorded.append(RecordedEvent(type_, reason, note, (about["kind"], about["name"])))


def _contents(written: Written) -> Iterator[dict[str, Any]]:
    """Return the objects that a test has written; a model with its status."""
    for content in documents(written):
        if not (content.get("apiVersion") and content.get("kind") and (content.get("metadata") or {}).get("name")):
            raise ValueError(f"an object needs apiVersion, kind and metadata.name; one has {', '.join(content)}")
        if isinstance(written, msgspec.Struct) and (status := to_dict(written).get("status")) is not None:
            content["status"] = status
        yield {**content, "metadata": dict(content["metadata"])}


def _chosen(controllers: Sequence[HostedController], obj: Mapping[str, Any], name: str) -> HostedController:
    """Return the controller of an object's kind, or the one of that name."""
    kind = (obj["apiVersion"], obj["kind"])
    fitting = [hosted for hosted in controllers if hosted.kind[:2] == kind and name in ("", hosted.controller.name)]
    if len(fitting) == 1:
        return fitting[0]
    names = ", ".join(hosted.controller.name for hosted in fitting or controllers) or "none"
    if fitting:
        raise ValueError(f"several controllers reconcile {kind[1]} ({kind[0]}): choose with `controller=` from {names}")
    raise ValueError(f"no controller{f' `{name}`' if name else ''} reconciles {kind[1]} ({kind[0]}); there are {names}")


def _assumed_crds(hosted: HostedController, contents: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Return what the client needs to know of custom kinds whose CRDs the plugin does not ship.

    Such a kind is namespaced, unless an object of it has no namespace.
    """
    kinds = dict.fromkeys((source.reference[:2] for source in hosted.kinds), "Namespaced")
    for content in contents:
        scope = "Namespaced" if content["metadata"].get("namespace") else "Cluster"
        kinds[content["apiVersion"], content["kind"]] = scope
    for (api_version, kind), scope in kinds.items():
        group, _, version = api_version.rpartition("/")
        names = {"kind": kind, "plural": plural_of(kind)}
        yield {"spec": {"group": group, "scope": scope, "names": names, "versions": [{"name": version}]}}


def _put(store: ObjectStore, client: Client, content: dict[str, Any]) -> Request:
    """Store an object, and return its key."""
    resource, metadata = client.resource(content["apiVersion"], content["kind"]), content["metadata"]
    if resource.namespaced:
        metadata.setdefault("namespace", _NAMESPACE)
    namespace = metadata.get("namespace", "")
    store.put(resource.path(namespace or None, metadata["name"]), content)
    return Request(metadata["name"], namespace)
