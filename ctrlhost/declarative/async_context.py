"""The context of `async def` functions: the names of `Context`, and what writes or waits is awaited."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast, overload

from ctrlhost.client.async_client import to_its_end
from ctrlhost.declarative.async_cache import AsyncCache
from ctrlhost.declarative.awaits import remembers_calls

if TYPE_CHECKING:
    import builtins
    import logging
    from collections.abc import Callable, Iterable
    from types import EllipsisType
    from typing import Generic as Parameters

    from typing_extensions import TypeVar

    from ctrlhost.cache import Object
    from ctrlhost.client import AsyncClient
    from ctrlhost.clock import Clock
    from ctrlhost.controller.context import Context
    from ctrlhost.controller.status import StatusWriter
    from ctrlhost.declarative.run import Run
    from ctrlhost.declarative.run_client import RunClient
    from ctrlhost.events.recorder import PluginEvents
    from ctrlhost.models.kinds import KindRef
    from ctrlhost.models.typed_objects import AnyObject
    from ctrlhost.request import Request

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


@remembers_calls("ctx")
class AsyncContext(Parameters[K, S, State]):
    """Context of one run of an `async def`. Valid only during the call, and only on its task.

    The names are those of `Context`; methods that write or wait are awaited, and `client` is an `AsyncClient`.
    """

    __slots__ = ("_calls", "_client", "_context", "_run")

    def __init__(self, run: Run) -> None:
        """Wrap the context of a run."""
        self._run = run
        self._calls = run.calls
        self._context: Context[Any, Any] = run.context
        self._client: RunClient | None = None

    @property
    def request(self) -> Request:
        """The key of the run."""
        return self._context.request

    @property
    def client(self) -> AsyncClient:
        """The client, whose verbs are awaited; its writes are seen by the next reads."""
        client = self._context.async_client
        if self._client is None:
            # Imported late: a module that only names this class in annotations needs no client.
            from ctrlhost.declarative.run_client import RunClient

            self._client = RunClient(client, self._calls)
        return self._client

    @property
    def events(self) -> PluginEvents:
        """The plugin's event recorder."""
        return self._context.events

    @property
    def log(self) -> logging.Logger:
        """The plugin's logger."""
        return self._context.log

    @property
    def clock(self) -> Clock:
        """The host's clock."""
        return self._context.clock

    @property
    def attempt(self) -> int:
        """The number of this attempt since the key last succeeded, from 1. A `TerminalError` starts it over."""
        return self._context.attempt

    @property
    def priority(self) -> int:
        """The priority that the key was queued with."""
        return self._context.priority

    @property
    def leading(self) -> bool:
        """Whether this replica leads now; always true without leader election."""
        return self._context.leading

    @property
    def stopping(self) -> bool:
        """Whether the host is shutting down; a long run should return then."""
        return self._context.stopping

    @property
    def dry_run(self) -> bool:
        """Whether writes have no effect."""
        return self._context.dry_run

    @property
    def object(self) -> Object:
        """The reconciled object as it was cached when the run began; NotFound if it is gone."""
        return self._run.object

    @property
    def settings(self) -> S:
        """The plugin's settings."""
        return cast("S", self._run.settings)

    @property
    def state(self) -> State:
        """What the plugin's `setup` returned for this host; None without one."""
        return cast("State", self._run.state)

    @property
    def status(self) -> StatusWriter:
        """The status that the run sets, written when it ends: nothing is awaited. NotFound if the object is gone."""
        return self._context.status

    async def write_status(self) -> None:
        """Write now what `status` is set to, before a long part of the run; its end writes the rest.

        Nothing is sent if nothing differs. If another writer has changed the object, the end of the run writes it all.
        """
        await to_its_end(self._run.write_status())

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
        """Record an event; see `Context.event`. It never waits, so that it is not awaited."""
        return self._run.event(reason, message, warning=warning, about=about, action=action, once=once)

    @overload
    def cache(self, kind: type[T]) -> AsyncCache[T]: ...
    @overload
    def cache(self, kind: tuple[str, str] | str) -> AsyncCache[Object]: ...
    def cache(self, kind: Any) -> AsyncCache[Any]:
        """Return the cached objects of a kind that the controller declares; raises UndeclaredRead for others."""
        return AsyncCache(self._run.cache(kind), self._calls)

    async def ensure(
        self,
        obj: AnyObject,
        *,
        owner: AnyObject | EllipsisType | None = ...,
        adopt: bool | Callable[[Object], bool] = False,
    ) -> Object:
        """Apply an object that the reconciled one controls, and return the live one, which the next read shows.

        ```python
        # a part of a controller
        metadata = {"name": f"{obj.name}-config"}
        live = await ctx.ensure({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}})
        ```

        `obj` is a mapping, a model, or a typed object of another library, such as the official client. It is applied
        (server-side, forced) if it is absent, if it was last applied differently, or if the live object differs in a
        field that `obj` names. Otherwise no request is sent. Its namespace is that of `owner` by default; `owner=None`
        sets no owner reference. Write each object in one controller only: the applies of two would replace each other's
        fields.

        Raises UndeclaredRead for a kind that is not in `owns`. Raises NotOwned if something else controls the object,
        or nothing does and `adopt` is false. Raises ValueError for an owner in another namespace.

        A write logs and records the event Created, Updated, Repaired or Adopted about the reconciled object, with the
        fields that differed; a refused one ApplyFailed. `adopt` may be a function of the live object that decides. The
        fields that former writers of an adopted object set go, unless `obj` names them. An owner that is gone or being
        deleted adopts nothing.
        """
        return await to_its_end(self._run.ensure(obj, owner=owner, adopt=adopt))

    async def prune(self, kind: KindRef[Any], *, keep: Iterable[AnyObject | str] = ()) -> list[Request]:
        """Delete what the reconciled object controls of a kind and `keep` does not name.

        `keep` has objects, names, and for a cluster-scoped owner `namespace/name`; a name alone is kept anywhere.

        Returns the requests of what was deleted. Raises PluginError unless the kind is in `owns` with `prune=True`,
        Stale if the cache does not show the plugin's own writes in time, and Conflict if an object has changed since.
        """
        return await to_its_end(self._run.prune(kind, keep=keep))
