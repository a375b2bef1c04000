"""The context of a plugin: its access to the host, and its registrations in `ctrlhost_setup`."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, cast

from ctrlhost.controller.addresses import is_path
from ctrlhost.controller.controller import Controller
from ctrlhost.controller.error_text import line_of
from ctrlhost.controller.handle import ControllerHandle
from ctrlhost.controller.options import ControllerOptions
from ctrlhost.controller.services import PluginScope, PluginServices
from ctrlhost.controller.sources import For, Watches
from ctrlhost.duration import in_seconds
from ctrlhost.errors import ConfigError, PluginError, PluginLoadError
from ctrlhost.informers.plugin_informer import PluginInformer
from ctrlhost.plugin.probe import PluginCheck
from ctrlhost.plugin.task import Task, Until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence
    from concurrent.futures import Future
    from typing import Generic as Parameters
    from typing import Literal, Protocol

    from prometheus_client import CollectorRegistry
    from typing_extensions import TypeVar

    from ctrlhost.cache import Object
    from ctrlhost.client import Client
    from ctrlhost.config.settings import ShardBy
    from ctrlhost.controller.backoff import Backoff
    from ctrlhost.controller.context import Context
    from ctrlhost.controller.source import KindSource, Reads, Source
    from ctrlhost.duration import DurationLike
    from ctrlhost.informers import Informer
    from ctrlhost.models.kinds import KindRef
    from ctrlhost.plugin.metrics import PluginMetrics
    from ctrlhost.plugin.report import Report
    from ctrlhost.request import Request, Result
    from ctrlhost.webhooks.admission import Admission
    from ctrlhost.webhooks.conversion import Converters
    from ctrlhost.webhooks.webhook import Webhook

    T = TypeVar("T")
    #: The plugin's settings.
    S = TypeVar("S", default=Any)
    #: The plugin's own object.
    State = TypeVar("State", default=Any)

    class NamedController(Protocol):
        """A declared controller, which has a name."""

        @property
        def name(self) -> str:
            """The controller's name within its plugin."""
else:
    from ctrlhost.controller.parameters import Parameters

    S = State = object


class PluginContext(Parameters[S, State]):
    """One plugin's access to the host. Plugins register everything in `ctrlhost_setup`, which must not use the network.

    `PluginContext[Settings, State]` has the types of the plugin's settings and state; both may be left out.

    Register in that hook's thread; the properties, the client and the events may be used from any thread.
    """

    def __init__(self, name: str, settings: S, services: PluginServices) -> None:
        """Prepare; called by the host."""
        self.name = name
        self.settings = settings
        self.services = services
        self.scope = PluginScope(name, services)
        #: The plugin's event recorder.
        self.events = self.scope.events
        #: The plugin's logger; lines from a reconcile carry its controller, key and id.
        self.log = self.scope.log
        #: The host's clock; tests may replace it.
        self.clock = services.clock
        self._lock = threading.Lock()
        self._collected: PluginMetrics | None = None
        self.controllers: list[Controller] = []
        self.tasks: list[Task] = []
        #: ASGI applications, by path below `/NAME` on the host's server.
        self.pages: dict[str, Any] = {}
        #: Addresses, `HOST:PORT`, and their ASGI applications.
        self.listeners: list[tuple[str, Any]] = []
        #: The settings that the hosts of these addresses come from.
        self.address_settings: dict[str, str] = {}
        self.health_checks: list[PluginCheck] = []
        #: Admission webhooks, in the order in which they are called, and conversions by kind.
        self.webhooks: list[Webhook] = []
        self.conversions: list[Converters] = []
        #: The kinds of `informer`, for their permissions.
        self.reads: list[KindSource] = []
        self.informers: list[PluginInformer] = []
        #: What `clean_up` calls, the last one first.
        self._cleanups: list[Callable[[], Any]] = []
        #: Whether no worker starts before the caches of all controllers are full.
        self.starts_together = False

    @property
    def state(self) -> State:
        """The plugin's own object, set in `ctrlhost_setup` for its later hooks; the host does not use it."""
        return cast("State", self.scope.state)

    @state.setter
    def state(self, state: State) -> None:
        self.scope.state = state

    @property
    def metrics(self) -> CollectorRegistry:
        """The registry of the plugin's own metrics, which the host shows with its own."""
        return self.collected.registry

    @property
    def collected(self) -> PluginMetrics:
        """What the host collects from `metrics`."""
        with self._lock:
            if self._collected is None:
                # Not at the start, which a plugin without metrics need not delay.
                from prometheus_client import CollectorRegistry

                from ctrlhost.plugin.metrics import PluginMetrics

                self._collected = PluginMetrics(self.name, CollectorRegistry(), self.scope.entries)
            return self._collected

    def start_together(self) -> None:
        """Hold back all workers and `ctrlhost_synced` until the caches of all controllers are full.

        Without this, a controller whose kind is not served yet, or may not be read, does not delay the others. For the
        thread of `ctrlhost_setup`.
        """
        self.starts_together = True

    @property
    def client(self) -> Client:
        """The plugin's client. Its writes raise NotLeading while this replica does not lead.

        Read in work that requires leadership (a reconcile, a task with `needs_leader`, `ctrlhost_elected`), it writes
        only in the term in which that work began, also on another thread.
        """
        return self.scope.clients.current()

    @property
    def replica_client(self) -> Client:
        """The client for writes that every replica makes, whether it leads or not."""
        return self.scope.clients.replica

    @property
    def dry_run(self) -> bool:
        """Whether writes have no effect; the plugin then also leaves alone what is not in Kubernetes."""
        return self.services.client.dry_run

    @property
    def offline(self) -> bool:
        """Whether there is no server, as in `ctrlhost manifests`: a set-up that asks for kinds then leaves that out."""
        return self.services.offline

    @property
    def term(self) -> int | None:
        """A number that grows each time this replica begins to lead; None while it does not. 1 without an election."""
        return self.services.candidacy.term

    @property
    def leading(self) -> bool:
        """Whether this replica leads now; always true without leader election."""
        return self.services.candidacy.leading

    @property
    def leader(self) -> str:
        """The identity of the leading replica, as in the Lease; empty if it is unknown or without leader election."""
        return self.services.candidacy.leader()

    def add_controller(
        self,
        name: str,
        reconcile: Callable[[Context, Request], Result | Awaitable[Result | None] | None],
        *sources: Source,
        workers: int = 1,
        retry: Backoff | None = None,
        rate_limiter: Any = None,
        timeout: DurationLike | None = None,
        needs_leader: bool = True,
        suppress_echo: bool = False,
        shard_by: ShardBy | None = None,
    ) -> ControllerHandle:
        """Register a reconciler and its sources.

        ```python
        # a part of a plugin with hooks
        plugin.add_controller("foo", reconcile, ctrlhost.For(API_VERSION, "Foo"), workers=2)
        ```

        A plain function runs on `workers` threads, an `async def` as that many tasks on the plugin's event loop. A
        reconcile that runs longer than `timeout` (seconds, or a text such as `"30s"`) is logged and counted, and
        cancelled if it is `async def`. `retry` sets the delays between the retries of a key, or `rate_limiter` an
        object with the methods of `ctrlhost.workqueue.RateLimiter`.
        With `needs_leader` it runs and writes only on the leader. With `suppress_echo` the events of the controller's
        own writes enqueue nothing. The operator's settings override the options.

        With `shard_by`, replicas of a host with shards share its keys: by "namespace", "name", or the "uid" of the
        objects of `For`. Its caches then hold the part of this replica, and sources with `shared=True` as a whole.

        A plugin that runs may add controllers, such as for kinds that are installed meanwhile, from a hook, a task or a
        reconcile. Each starts when its caches are full.

        Raises PluginLoadError for invalid names and sources, and TypeError for an invalid option.
        """
        if any(controller.name == f"{self.name}/{name}" for controller in self.controllers):
            raise PluginLoadError(self.name, f"plugin `{self.name}` has two controllers named `{name}`")
        options = ControllerOptions(
            workers=workers,
            retry=retry,
            rate_limiter=rate_limiter,
            timeout=None if timeout is None else in_seconds(timeout),
            needs_leader=needs_leader,
            suppress_echo=suppress_echo,
            shard_by=shard_by,
        )
        controller = Controller(self.scope, name, reconcile, sources, options)
        self.controllers.append(controller)
        return ControllerHandle(controller)

    def owns(self, request: Request) -> bool:
        """Return whether this replica would reconcile the request now: the range of its key is open here.

        Without controllers that share their keys, that is whether this replica leads.
        """
        sharded = [controller for controller in self.controllers if controller.sharded]
        return any(controller.owns(request) for controller in sharded) if sharded else self.leading

    def handle(self, controller: NamedController) -> ControllerHandle:
        """Return the handle of a function that `@plugin.controller` has declared, to enqueue requests.

        Raises PluginError for one that is not enabled.
        """
        name = f"{self.name}/{controller.name}"
        known = next((controller for controller in self.controllers if controller.name == name), None)
        if known is None:
            raise PluginError(self.name, f"controller `{name}` is not enabled")
        return ControllerHandle(known)

    def informer(
        self,
        api_version: str,
        kind: str,
        *,
        namespaces: Sequence[str] | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        reads: Reads = None,
        transform: Callable[[Object], Any] | None = None,
        shard_by: ShardBy | None = None,
    ) -> Informer:
        """Return a shared informer for pages and tasks; it starts with the plugin's controllers.

        It shares a watch with what other plugins ask for in their set-up, if its first use comes after that.

        Handlers, maps and index functions that are added to it run on the plugin's threads. `transform` returns the
        object to cache, or its mapping; such an informer is the plugin's own, with a watch and a thread of its own.

        With `shard_by` it holds the part of this replica, as the caches of a controller with the same word do; without
        shards it holds everything. By "uid" objects go by their own uid if a controller of the plugin, added before, is
        for their kind, else by that of their owner.

        Raises ValueError or TypeError for invalid arguments, as `Watches` does.
        """
        if self.services.shards is None:
            shard_by = None
        source: KindSource = (For if self._reconciles(api_version, kind) else Watches)(
            api_version,
            kind,
            namespaces=namespaces,
            label_selector=label_selector,
            field_selector=field_selector,
            reads=reads,
        )
        self.reads.append(source)
        if transform is None:
            source.declare(self.scope, self.services.namespaces, shard_by)
        elif not callable(transform):
            raise TypeError(f"transform must be a function that returns the object to keep, got {transform!r}")

        def choose() -> Informer:
            return source.informer(
                self.services,
                self.services.namespaces,
                shard_by,
                discover=False,
                transform=transform,
                caller=self.scope.caller,
            )

        informer = PluginInformer(choose, self.scope.caller)
        self.informers.append(informer)
        return cast("Informer", informer)

    def _reconciles(self, api_version: str, kind: str) -> bool:
        sources = (source for controller in self.controllers for source in controller.sources)
        return any(isinstance(s, For) and (s.api_version, s.kind) == (api_version, kind) for s in sources)

    def add_page(self, path: str, asgi_app: Any) -> None:
        """Serve an ASGI application on the host's server below `/NAME` + `path`; `path` must begin with a slash.

        It runs on the plugin's event loop. If its answer does not begin within the deadline `page` of the plugin's
        supervision (10 s), the client gets 504; if it raises before, 500; without a valid answer, 502. It is cancelled
        when the client leaves.
        """
        if not is_path(path):
            raise PluginLoadError(self.name, f"plugin `{self.name}`: the page's path `{path}` must begin with a slash")
        self.pages[path] = asgi_app

    def add_report(self, path: str, report: Report, *, title: str = "", leader_only: bool = False) -> None:
        """Serve what `report` returns below `/NAME` + `path`, as an HTML table or, with `?format=json`, as JSON.

        `report` is called per request, on the plugin's event loop, and may be `async def`: it returns one mapping, or
        rows as mappings or structs; texts are escaped, rows sorted. The JSON is also sent to clients that accept
        nothing else. With `leader_only`, a replica that does not lead answers 503 with the identity of the one that
        does. Raises PluginLoadError if the path does not begin with a slash.
        """
        from ctrlhost.plugin.report import report_page

        def leader() -> str | None:
            return self.leader if leader_only and not self.leading else None

        self.add_page(path, report_page(title or self.name, report, leader))

    def add_listener(self, address: str, asgi_app: Any, *, address_setting: str = "") -> None:
        """Serve an ASGI application on its own address, `HOST:PORT`; raises PluginLoadError for an invalid one.

        ConfigError if the HOST of a setting has a port.

        It runs on the plugin's event loop, with the same deadline and errors as a page. `address_setting` is the name
        of the plugin's setting that HOST comes from, whose default should be a loopback address: `ctrlhost manifests`
        sets it to all addresses, unless the operator has set it.
        """
        _, colon, port = address.rpartition(":")
        if not colon or not port.isdigit():
            raise PluginLoadError(self.name, f"plugin `{self.name}`: invalid address `{address}`: it must be HOST:PORT")
        host = address.rpartition(":")[0]
        if address_setting and ":" in host and not host.startswith("["):
            raise ConfigError(
                f"plugins.{self.name}.{address_setting}: invalid host `{host}`",
                hint="write the host alone, an IPv6 address in brackets: the port is a setting of its own",
            )
        self.listeners.append((address, asgi_app))
        if address_setting:
            self.address_settings[address] = address_setting

    def add_task(
        self,
        name: str,
        run: Callable[[threading.Event], Any],
        *,
        every: DurationLike | None = None,
        first_after: DurationLike = 0.0,
        needs_leader: bool = False,
        until: Until = "stopping",
    ) -> Task:
        """Register background work: `run(stop)` is called on its own thread, once or with `every` repeatedly.

        The first call is `first_after` the start, each further one `every` after the end of the one before; both are
        durations such as `"30s"`, or numbers of seconds. An `async def` runs on the plugin's event loop, and is
        cancelled when the task must end. With `every`, a call is reported when it takes twice that time, and at least a
        minute. A restarted plugin's task starts when its previous call has ended.

        At a shutdown the task ends with the intake of new work, or with `until="drained"` after the last reconcile.

        Raises ValueError or TypeError for an invalid duration.
        """
        task = Task(
            self.name,
            name,
            run,
            every=every,
            first_after=first_after,
            needs_leader=needs_leader,
            until=until,
            clock=self.services.clock,
            loop=self.scope.loop,
            entries=self.scope.entries,
            work=self.scope.clients.work if needs_leader else nullcontext,
        )
        self.tasks.append(task)
        return task

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine on the plugin's event loop, and return its outcome to come; from any thread but the loop's.

        So a hook, which is a plain function, waits for something asynchronous: `plugin.submit(prepare()).result()`.
        RuntimeError after the plugin has ended.
        """
        return self.scope.loop.submit(coroutine)

    def add_webhook(
        self,
        type: Literal["validate", "mutate"],  # noqa: A002 - as in the path of the webhook
        name: str,
        kind: KindRef[Any],
        function: Callable[[Admission[Any, Any, Any], Any, Any], Any],
        *,
        operations: Sequence[str] = ("CREATE", "UPDATE"),
        failure_policy: Literal["Fail", "Ignore"] = "Fail",
        timeout: DurationLike = "5s",
        subresource: str = "",
        label_selector: str = "",
        reinvoke: bool = True,
    ) -> None:
        """Register an admission webhook, as `@plugin.validate` and `@plugin.mutate` do for declared plugins.

        `function(admission, new, old)` is a `def` or an `async def`: one that validates raises `ctrlhost.Denied` or
        returns None, one that mutates returns the object. Raises PluginLoadError for a name that is no DNS label, and
        ValueError for an invalid kind or duration.
        """
        from ctrlhost.webhooks.of_function import webhook_of

        if any(webhook.name == name for webhook in self.webhooks):
            raise PluginLoadError(self.name, f"plugin `{self.name}` has two webhooks named `{name}`")
        webhook = webhook_of(
            self.scope,
            type,
            name,
            kind,
            function,
            operations=tuple(operations),
            failure_policy=failure_policy,
            timeout=in_seconds(timeout),
            subresource=subresource,
            label_selector=label_selector,
            reinvoke=reinvoke,
        )
        self.webhooks.append(webhook)

    def add_health_check(self, name: str, check: Callable[[], None]) -> None:
        """Register a check for `/healthz`, called on its own thread; it raises if the plugin is unhealthy.

        A request begins the check, waits for 50 ms, and shows its last outcome. A check that has not returned after
        the deadline `probe` of the plugin's supervision (2 s) has failed.
        """
        self.health_checks.append(PluginCheck(f"{self.name}/{name}", check, self.scope.entries))

    def fence(self) -> None:
        """Refuse all requests of the plugin's clients from now on; called by the host when the plugin has failed."""
        self.scope.clients.writes.fence()

    def add_cleanup(self, function: Callable[[], Any]) -> None:
        """Call `function()` once when the plugin has ended: after the last reconcile and task, also at each restart.

        Functions run in reverse order on a thread of their own; an exception is logged.
        """
        self._cleanups.append(function)

    def clean_up(self, timeout: float) -> bool:
        """Call what `add_cleanup` has registered; return whether that ended within `timeout` real seconds."""
        if not self._cleanups:
            return True
        cleanups, self._cleanups = self._cleanups[::-1], []

        def body() -> None:
            for cleanup in cleanups:
                try:
                    cleanup()
                except BaseException as error:
                    self.log.error("plugin %s: cleanup failed: %s", self.name, line_of(error), exc_info=error)

        thread = threading.Thread(target=body, name=f"{self.name} cleanup", daemon=True)
        thread.start()
        thread.join(timeout)
        if thread.is_alive():
            self.log.error("plugin %s: its cleanup did not end in time; abandoned", self.name)
        return not thread.is_alive()

    def close(self, timeout: float = 1.0) -> None:
        """End the plugin's loop, informers and metric series; called by the host after the controllers are drained."""
        self.clean_up(timeout)
        self.scope.close(timeout)
        # Nobody else is to be served from a watch that only this plugin wanted.
        self.services.factory.withdraw(self.scope)
        for informer in self.informers:
            informer.release()
        self.informers.clear()
        for controller in self.controllers:
            controller.remove_metrics()
