"""The context of a reconcile: the reconciler's access to caches and clients, and the fields of its log lines."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ctrlhost.client import AsyncClient
from ctrlhost.errors import UndeclaredRead

if TYPE_CHECKING:
    import logging
    from collections.abc import Iterator, Mapping

    from ctrlhost.cache import Object
    from ctrlhost.client import Client
    from ctrlhost.controller.clients import PluginClients
    from ctrlhost.controller.services import PluginScope
    from ctrlhost.coordination.writes import Permit
    from ctrlhost.events.recorder import PluginEvents
    from ctrlhost.own_writes.lister import PluginLister
    from ctrlhost.own_writes.self_events import SelfEvents
    from ctrlhost.request import Request
    from ctrlhost.workqueue import WorkQueue


@dataclass(slots=True, eq=False)
class ControllerScope:
    """State that the contexts of one controller share; created once, when the workers start."""

    plugin: PluginScope
    controller: str
    queue: WorkQueue
    clients: PluginClients
    #: Whether runs belong to a term; if not, their writes are those of every replica.
    needs_leader: bool
    self_events: SelfEvents | None
    events: PluginEvents
    log: logging.Logger
    primary: PluginLister | None = None
    listers: Mapping[tuple[str, str], PluginLister] = field(default_factory=dict)


class Context:
    """Context of one reconcile. Valid only during the call, and only on its thread or task: workers reuse it.

    Reads come from the cache and include the plugin's own writes; writes go through `client` or `async_client`. If the
    controller requires leadership, both raise NotLeading for a write outside the term in which the run began.
    """

    __slots__ = (
        "_async_client",
        "_scope",
        "client",
        "clock",
        "events",
        "log",
        "number",
        "permit",
        "priority",
        "request",
        "started",
        "term",
        "worker",
    )

    def __init__(self, scope: ControllerScope, worker: int) -> None:
        """Prepare for a controller; the worker sets the request of each run."""
        self._scope = scope
        #: The number of the term that the run belongs to; None in a controller that does not need leadership.
        self.term: int | None = None
        #: What the writes of the run ask; None in a controller that does not need leadership.
        self.permit: Permit | None = None
        self.client: Client
        self._async_client: AsyncClient | None = None
        if scope.needs_leader:
            self.enter(scope.plugin.services.candidacy.tenure.current.number)
        else:
            self.client = scope.clients.with_permit(scope.clients.writes.write, scope.self_events)
        self.clock = scope.plugin.services.clock
        self.events = scope.events
        self.log = scope.log
        self.worker = worker
        #: The number of runs that this worker has begun; part of the reconcile's id.
        self.number = 0
        #: Start of the run on the host's clock, in seconds; None between runs.
        self.started: float | None = None
        self.request: Request | None = None
        #: The priority that the key was queued with.
        self.priority = 0

    def enter(self, term: int) -> None:
        """Write in this term from now on; called by the worker between runs."""
        clients = self._scope.clients
        self.term, self.permit = term, clients.permit(term)
        self.client = clients.with_permit(self.permit, self._scope.self_events)
        self._async_client = None

    @property
    def async_client(self) -> AsyncClient:
        """The client for `async def` reconcilers: the same methods as `client`, to be awaited."""
        if self._async_client is None:
            self._async_client = AsyncClient(self.client)
        return self._async_client

    @property
    def reconcile_id(self) -> str:
        """The id of the run, unique among the controller's runs in this process; it is on every log line."""
        return f"{self.worker}-{self.number}"

    @property
    def controller(self) -> str:
        """The controller's name, as `plugin/name`."""
        return self._scope.controller

    @property
    def plugin(self) -> str:
        """The name of the controller's plugin."""
        return self._scope.plugin.name

    @property
    def attempt(self) -> int:
        """The number of this attempt since the key last succeeded, from 1."""
        return 1 if self.request is None else self._scope.queue.num_requeues(self.request) + 1

    @property
    def dry_run(self) -> bool:
        """Whether writes have no effect; a reconciler then also leaves alone what is not in Kubernetes."""
        return self._scope.plugin.services.client.dry_run

    @property
    def leading(self) -> bool:
        """Whether this replica leads now; always true without leader election."""
        return self._scope.plugin.services.candidacy.leading

    @property
    def stopping(self) -> bool:
        """Whether the host is shutting down; a long run should return then."""
        return self._scope.plugin.services.stopping.is_set()

    def get(self, request: Request) -> Object | None:
        """Return the cached object of `For`'s kind that the request names, or None.

        It is never older than the plugin's own last write. Raises UndeclaredRead in a controller without a `For`.
        """
        primary = self._scope.primary
        if primary is None:
            raise UndeclaredRead(
                self._scope.plugin.name,
                f"controller `{self._scope.controller}` has no `For`, which `ctx.get` reads",
                hint="add a `ctrlhost.For(…)` to its sources, or use `ctx.lister(api_version, kind)`",
            )
        return primary.get(request.name, request.namespace)

    def lister(self, api_version: str, kind: str) -> PluginLister:
        """Return the cached objects of a kind that is a source of this controller; UndeclaredRead for others."""
        lister = self._scope.listers.get((api_version, kind))
        if lister is None:
            declared = ", ".join(f"{one} ({version})" for version, one in self._scope.listers) or "nothing"
            raise UndeclaredRead(
                self._scope.plugin.name,
                f"controller `{self._scope.controller}` reads {kind} ({api_version}) without declaring it; "
                f"it declares {declared}",
                hint=f'add `ctrlhost.Watches("{api_version}", "{kind}")` to its sources',
            )
        return lister


#: The context of the reconcile that runs in this thread or task, for log lines. A worker's thread sets it only once, so
#: that a reconcile without log lines pays nothing.
current: ContextVar[Context | None] = ContextVar("ctrlhost_reconcile", default=None)


def log_fields() -> dict[str, Any]:
    """Return plugin, controller, object and reconcile id of the run in this thread or task; empty outside of one."""
    context = current.get()
    if context is None or context.request is None:
        return {}
    return {
        "plugin": context.plugin,
        "controller": context.controller,
        "object": str(context.request),
        "reconcile_id": context.reconcile_id,
    }


_bound: ContextVar[Mapping[str, Any]] = ContextVar("ctrlhost_log", default=MappingProxyType({}))


@contextmanager
def bound(**values: Any) -> Iterator[None]:
    """Add `values` to each log line that this thread or task writes in the block."""
    token = _bound.set({**_bound.get(), **values})
    try:
        yield
    finally:
        _bound.reset(token)


def bound_values() -> Mapping[str, Any]:
    """Return the currently bound values."""
    return _bound.get()
