"""The context of a reconcile: the reconciler's access to caches and clients, and the fields of its log lines."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast, overload

from ctrlhost.errors import PluginError, UndeclaredRead

if TYPE_CHECKING:
    import builtins
    import logging
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import EllipsisType
    from typing import Generic as Parameters

    from typing_extensions import TypeVar

    from ctrlhost.cache import Object
    from ctrlhost.client import AsyncClient, Client
    from ctrlhost.client.in_flight import InFlight
    from ctrlhost.controller.caches import Cache
    from ctrlhost.controller.causes import Cause
    from ctrlhost.controller.clients import PluginClients
    from ctrlhost.controller.declared import Declared
    from ctrlhost.controller.services import PluginScope
    from ctrlhost.controller.status import StatusWriter
    from ctrlhost.coordination.ownership import Run
    from ctrlhost.coordination.writes import Permit
    from ctrlhost.events.recorder import PluginEvents
    from ctrlhost.models.kinds import KindRef
    from ctrlhost.models.typed_objects import AnyObject
    from ctrlhost.own_writes.lister import PluginLister
    from ctrlhost.own_writes.self_events import SelfEvents
    from ctrlhost.request import Request
    from ctrlhost.workqueue import WorkQueue

    T = TypeVar("T")
    #: The reconciled kind's struct, or `Object`.
    K = TypeVar("K", default=builtins.object, covariant=True)
    #: The plugin's settings.
    S = TypeVar("S", default=builtins.object, covariant=True)
    #: What the plugin's `setup` returns.
    State = TypeVar("State", default=Any, covariant=True)
else:
    from ctrlhost.controller.parameters import Parameters

    K = S = State = object


@dataclass(slots=True, eq=False)
class ControllerScope:
    """State that the contexts of one controller share; created once, when the workers start."""

    plugin: PluginScope
    controller: str
    queue: WorkQueue
    #: The runs since the last success of each key whose last run did not succeed.
    attempts: Mapping[Any, int]
    clients: PluginClients
    #: Whether runs belong to a term; if not, their writes are those of every replica.
    needs_leader: bool
    self_events: SelfEvents | None
    events: PluginEvents
    log: logging.Logger
    primary: PluginLister | None = None
    listers: Mapping[tuple[str, str], PluginLister] = field(default_factory=dict)
    #: Those of `Owns` only.
    owned: Mapping[tuple[str, str], PluginLister] = field(default_factory=dict)


#: What writes for a run.
_OF_THE_RUN = ("_async_client", "client", "declared", "events")


class Context(Parameters[K, S, State]):
    """Context of one reconcile. Valid only during the call, and only on its thread or task: workers reuse it.

    Reads come from the cache and include the plugin's own writes; writes go through `client` or `async_client`. If the
    controller requires leadership, both raise NotLeading for a write outside the term in which the run began.

    `Context[K, S, State]` is that of a controller of `ctrlhost.Plugin`, with the types of the kind's struct, the
    plugin's settings and its state, which may be left out. Only there are `object`, `settings`, `state`, `cache`,
    `ensure`, `prune`, `status`, `write_status` and `event`; elsewhere they raise PluginError.
    """

    __slots__ = (
        "_async_client",
        "_scope",
        "cause",
        "client",
        "clock",
        "declared",
        "events",
        "in_flight",
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
        #: The writes of the worker's runs; a run ends after its own.
        self.in_flight: InFlight
        self.client: Client
        self._async_client: AsyncClient | None = None
        if scope.needs_leader:
            self.enter(scope.plugin.services.candidacy.tenure.current.number)
        else:
            # Imported late: a module that only names this class in annotations needs no client.
            from ctrlhost.coordination.writes import UntilFence

            permit = UntilFence(scope.clients.writes, counts=True)
            self.in_flight = permit.in_flight
            self.client = scope.clients.with_permit(permit, scope.self_events)
        self.clock = scope.plugin.services.clock
        self.events = scope.events
        self.log = scope.log
        self.worker = worker
        #: The number of runs that this worker has begun; part of the reconcile's id.
        self.number = 0
        #: Start of the run on the host's clock, in seconds; None between runs.
        self.started: float | None = None
        #: The key of the run; None between runs, which a reconciler never sees.
        self.request: Request = None  # type: ignore[assignment]
        #: The priority that the key was queued with.
        self.priority = 0
        #: The cause for which the last run that failed did so; for its log line.
        self.cause: Cause | None = None
        #: The run of a controller of `ctrlhost.Plugin`; None for others.
        self.declared: Declared | None = None

    def of_run(self) -> Context[K, S, State]:
        """Return a context for the run that begins, which nobody reuses; `end` ends it."""
        run = object.__new__(type(self))
        for name in Context.__slots__:
            setattr(run, name, getattr(self, name))
        return run

    def end(self) -> None:
        """End a context of `of_run`: PluginError from now on for what writes."""
        for name in _OF_THE_RUN:
            delattr(self, name)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raise PluginError for what `end` has removed."""
            if name not in _OF_THE_RUN:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            used = "client" if name == "_async_client" else name
            used = "ctx" if name == "declared" else f"ctx.{used}"
            raise PluginError(
                self.plugin,
                f"{used} was used after its run has ended: {self.run_name}",
                hint="let threads, callbacks and tasks end before the function returns, or use the client of the host",
            )

    def enter(self, term: int) -> None:
        """Write in this term from now on; called by the worker between runs."""
        self._enter(self._scope.clients.permit(term))

    def _enter(self, permit: Permit) -> None:
        self.term, self.permit = permit.term, permit
        self.in_flight = permit.in_flight
        self.client = self._scope.clients.with_permit(permit, self._scope.self_events)
        self._async_client = None

    def enter_range(self, run: Run) -> bool:
        """Write in the tenure of a range from now on; called by the worker. Return whether it is another one."""
        permit = self.permit
        if permit is not None and permit.tenure is run.tenure and permit.term == run.term:
            return False
        self._enter(self._scope.clients.permit(run.term, run.tenure))
        return True

    @property
    def async_client(self) -> AsyncClient:
        """The client for `async def` reconcilers: the same methods as `client`, to be awaited."""
        if self._async_client is None:
            # Imported late: a module that only names this class in annotations needs no client.
            from ctrlhost.client import AsyncClient

            self._async_client = AsyncClient(self.client)
        return self._async_client

    @property
    def reconcile_id(self) -> str:
        """The id of the run, unique among the controller's runs in this process; it is on every log line."""
        return f"{self.worker}-{self.number}"

    @property
    def run_name(self) -> str:
        """The controller, the key and the id of the run, for messages."""
        return f"{self.controller} {self.request} ({self.reconcile_id})"

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
        """The number of this attempt since the key last succeeded, from 1. A `TerminalError` starts it over."""
        return 1 if self.request is None else self._scope.attempts.get(self.request, 0) + 1

    @property
    def dry_run(self) -> bool:
        """Whether writes have no effect; a reconciler then also leaves alone what is not in Kubernetes."""
        return self._scope.plugin.services.client.dry_run

    @property
    def leading(self) -> bool:
        """Whether this replica leads now; always true without leader election.

        In a sharded controller, whether the writes of the run are still sent: the range of its key is here.
        """
        permit = self.permit
        if permit is not None and permit.shard:
            return not permit.over
        return self._scope.plugin.services.candidacy.leading

    @property
    def stopping(self) -> bool:
        """Whether the host is shutting down; a long run should return then."""
        return self._scope.plugin.services.stopping.is_set()

    @property
    def object(self) -> Object:
        """The reconciled object as it was cached when the run began; NotFound if it is gone."""
        return self._declared("object").object

    @property
    def settings(self) -> S:
        """The plugin's settings."""
        return cast("S", self._declared("settings").settings)

    @property
    def state(self) -> State:
        """What the plugin's `setup` returned for this host; None without one."""
        return cast("State", self._declared("state").state)

    @property
    def status(self) -> StatusWriter:
        """The status that the run sets, written when it ends; NotFound if the object is gone."""
        return self._declared("status").status

    def write_status(self) -> None:
        """Write now what `status` is set to, before a long part of the run; its end writes the rest.

        Nothing is sent if nothing differs. If another writer has changed the object, the end of the run writes it all.
        """
        from ctrlhost.transport.steps import carry_out

        carry_out(self._declared("write_status").write_status())

    def event(
        self,
        reason: str,
        message: str,
        *,
        warning: bool = False,
        about: AnyObject | None = None,
        action: str | None = None,
        once: bool = False,
    ) -> bool:
        """Record an event about the reconciled object, or `about` another one; it never blocks.

        Returns whether it was recorded; sending it never fails. TypeError for a reason or a message that is no text,
        ValueError for a reason that is not one word in CamelCase. `action` is the action taken. With `once`, an event
        is not recorded again for the same uid, generation, reason and message while the host runs; the latest 65,536
        events of the controller are remembered.
        """
        return self._declared("event").event(reason, message, warning=warning, about=about, action=action, once=once)

    @overload
    def cache(self, kind: type[T]) -> Cache[T]: ...
    @overload
    def cache(self, kind: tuple[str, str] | str) -> Cache[Object]: ...
    def cache(self, kind: Any) -> Cache[Any]:
        """Return the cached objects of a kind that the controller declares; UndeclaredRead for others."""
        return self._declared("cache").cache(kind)

    def ensure(
        self,
        obj: AnyObject,
        *,
        owner: AnyObject | EllipsisType | None = ...,
        adopt: bool | Callable[[Object], bool] = False,
    ) -> Object:
        """Apply an object that the reconciled one controls, and return the live one, which the next read shows.

        `obj` is a mapping, a model, or a typed object of another library, such as the official client. It is applied
        (server-side, forced) if it is absent, if it was last applied differently, or if the live object differs in a
        field that `obj` names; otherwise no request is sent. Its namespace is that of `owner` by default; `owner=None`
        sets no owner reference. UndeclaredRead for a kind that is not in `owns`, NotOwned if something else controls
        the object, or nothing does and `adopt` is false, ValueError for an owner in another namespace. Write each
        object in one controller only: the applies of two would replace each other's fields.

        A write logs and records the event Created, Updated, Repaired or Adopted about the reconciled object, with the
        fields that differed; a refused one ApplyFailed. `adopt` may be a function of the live object that decides. The
        fields that former writers of an adopted object set go, unless `obj` names them. An owner that is gone or being
        deleted adopts nothing.
        """
        from ctrlhost.transport.steps import carry_out

        return carry_out(self._declared("ensure").ensure(obj, owner=owner, adopt=adopt))

    def prune(self, kind: KindRef[Any], *, keep: Iterable[AnyObject | str] = ()) -> list[Request]:
        """Delete what the reconciled object controls of a kind and `keep` does not name.

        `keep` has objects, names, and for a cluster-scoped owner `namespace/name`; a name alone is kept anywhere.

        Returns what was deleted. PluginError unless the kind is in `owns` with `prune=True`, Stale if the cache does
        not show the plugin's own writes in time, Conflict if an object has changed since.
        """
        from ctrlhost.transport.steps import carry_out

        return carry_out(self._declared("prune").prune(kind, keep=keep))

    def _declared(self, name: str) -> Declared:
        if self.declared is None:
            raise PluginError(
                self._scope.plugin.name,
                f"`ctx.{name}` is not available in controller `{self._scope.controller}`",
                hint="only controllers of `ctrlhost.Plugin` have it; with hooks, use `PluginContext` and `ctx.lister`",
            )
        return self.declared

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
            # Imported late: a module that only names this class in annotations needs no client.
            from ctrlhost.controller.undeclared import undeclared_hint

            declared = ", ".join(f"{lister} ({version})" for version, lister in self._scope.listers) or "nothing"
            raise UndeclaredRead(
                self._scope.plugin.name,
                f"controller `{self._scope.controller}` reads {kind} ({api_version}) without declaring it; "
                f"it declares {declared}",
                hint=undeclared_hint(
                    api_version,
                    kind,
                    self._scope.listers,
                    'add `ctrlhost.Watches("{api_version}", "{kind}")` to its sources',
                ),
            )
        return lister


def owned_lister(context: Context[Any, Any], api_version: str, kind: str) -> PluginLister:
    """Return the cached objects of a kind as `Owns` selects them; UndeclaredRead for others."""
    owned = context._scope.owned  # noqa: SLF001 - the same module
    return owned.get((api_version, kind)) or context.lister(api_version, kind)


#: The context of the reconcile that runs in this thread or task, for log lines. A worker's thread sets it only once, so
#: that a reconcile without log lines pays nothing.
current: ContextVar[Context | None] = ContextVar("ctrlhost_reconcile", default=None)


def log_fields() -> dict[str, Any]:
    """Return plugin, controller, key and reconcile id of the run in this thread or task; empty outside of one."""
    context = current.get()
    if context is None or context.request is None:
        return {}
    return {
        "plugin": context.plugin,
        "controller": context.controller,
        "key": str(context.request),
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
