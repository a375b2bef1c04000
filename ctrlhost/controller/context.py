"""What a reconciler gets beside its request."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ctrlhost.errors import UndeclaredRead

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Iterator, Mapping
    from threading import Event

    from ctrlhost.cache import Object
    from ctrlhost.client import AsyncClient, Client
    from ctrlhost.clock import Clock
    from ctrlhost.events.recorder import PluginEvents
    from ctrlhost.own_writes.overlay import PluginLister
    from ctrlhost.request import Request
    from ctrlhost.workqueue import WorkQueue


@dataclass(slots=True, eq=False)
class ControllerScope:
    """What all runs of one controller have in common; made once, when the controller attaches to its informers."""

    plugin: str
    controller: str
    queue: WorkQueue
    client: Client
    async_client: AsyncClient
    events: PluginEvents
    log: logging.Logger
    clock: Clock
    leading: Callable[[], bool]
    stopping: Event
    primary: PluginLister | None = None
    listers: Mapping[tuple[str, str], PluginLister] = field(default_factory=dict)


class Context:
    """One reconcile's view of the world. It is good for the length of the call only: a worker uses its own over again.

    Reads come from the cache and see the plugin's own writes; writes go through `client` or `async_client`.
    """

    __slots__ = ("_scope", "client", "clock", "events", "log", "number", "priority", "request", "started", "worker")

    def __init__(self, scope: ControllerScope, worker: int) -> None:
        """Bind to a controller; the worker fills in the request of each run."""
        self._scope = scope
        self.client = scope.client
        self.clock = scope.clock
        self.events = scope.events
        self.log = scope.log
        self.worker = worker
        #: How many runs this worker has begun; with the worker's number it is the reconcile's id.
        self.number = 0
        #: When the run began on the host's clock; None between runs.
        self.started: float | None = None
        self.request: Request | None = None
        #: The priority that the key was queued with.
        self.priority = 0

    @property
    def async_client(self) -> AsyncClient:
        """The client for `async def` reconcilers: the same methods, to be awaited."""
        return self._scope.async_client

    @property
    def reconcile_id(self) -> str:
        """What tells this run from all other runs of the controller in this process; it is on every log line."""
        return f"{self.worker}-{self.number}"

    @property
    def controller(self) -> str:
        """The controller's name, as `plugin/name`."""
        return self._scope.controller

    @property
    def attempt(self) -> int:
        """Which try this is since the key last succeeded, counted from 1."""
        return 1 if self.request is None else self._scope.queue.num_requeues(self.request) + 1

    @property
    def leading(self) -> bool:
        """Whether this replica leads now; without leader election always."""
        return self._scope.leading()

    @property
    def stopping(self) -> bool:
        """Whether the host has begun to stop; a long run should come to an end then."""
        return self._scope.stopping.is_set()

    def get(self, request: Request) -> Object | None:
        """Give the object of `For`'s kind that the request names, or None; the plugin's own last write at least.

        Raises UndeclaredRead in a controller that has no `For`.
        """
        primary = self._scope.primary
        if primary is None:
            raise UndeclaredRead(
                self._scope.plugin,
                f"controller `{self._scope.controller}` has no `For`, so `ctx.get` has nothing to look in",
                hint="add a `ctrlhost.For(…)` to its sources, or use `ctx.lister(api_version, kind)`",
            )
        return primary.get(request.name, request.namespace)

    def lister(self, api_version: str, kind: str) -> PluginLister:
        """Give the cached objects of a kind that this controller declared as a source; UndeclaredRead for any other."""
        lister = self._scope.listers.get((api_version, kind))
        if lister is None:
            declared = ", ".join(f"{one} ({version})" for version, one in self._scope.listers) or "nothing"
            raise UndeclaredRead(
                self._scope.plugin,
                f"controller `{self._scope.controller}` reads {kind} ({api_version}) without declaring it; "
                f"it declares {declared}",
                hint=f'add `ctrlhost.Watches("{api_version}", "{kind}")` to its sources',
            )
        return lister


#: The context of the reconcile that runs in this thread or task. A worker's thread sets it once, so that a log line can
#: name its reconcile while a reconcile that logs nothing pays nothing.
current: ContextVar[Context | None] = ContextVar("ctrlhost_reconcile", default=None)


def log_fields() -> dict[str, Any]:
    """Give the controller, key and reconcile id of the run that is under way here, for a log line; else nothing."""
    context = current.get()
    if context is None or context.request is None:
        return {}
    request: Any = context.request
    fields = {"controller": context.controller, "reconcile_id": context.reconcile_id}
    # A plugin may have enqueued a key of its own make.
    fields["name"] = getattr(request, "name", str(request))
    for part in ("namespace", "cluster"):
        if value := getattr(request, part, ""):
            fields[part] = value
    return fields


_bound: ContextVar[Mapping[str, Any]] = ContextVar("ctrlhost_log", default=MappingProxyType({}))


@contextmanager
def bound(**values: Any) -> Iterator[None]:
    """Put `values` on each log line that this thread or task writes in the block."""
    token = _bound.set({**_bound.get(), **values})
    try:
        yield
    finally:
        _bound.reset(token)


def bound_values() -> Mapping[str, Any]:
    """Give what is bound right now."""
    return _bound.get()
