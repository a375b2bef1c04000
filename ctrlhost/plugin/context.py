"""What a plugin gets in `ctrlhost_setup`: where it registers what it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry

from ctrlhost.controller.attachment import watched_namespaces
from ctrlhost.controller.controller import Controller
from ctrlhost.controller.handle import ControllerHandle
from ctrlhost.controller.options import ControllerOptions
from ctrlhost.controller.services import PluginScope, PluginServices
from ctrlhost.controller.sources import Watches
from ctrlhost.errors import NotLeading, PluginLoadError
from ctrlhost.plugin.task import Task, leader_only

if TYPE_CHECKING:
    import logging
    import threading
    from collections.abc import Awaitable, Callable, Sequence

    from ctrlhost.client import Client
    from ctrlhost.clock import Clock
    from ctrlhost.controller.context import Context
    from ctrlhost.controller.sources import KindSource, Reads, Source
    from ctrlhost.events.recorder import PluginEvents
    from ctrlhost.informers import Informer
    from ctrlhost.request import Request, Result

__all__ = ["HealthCheck", "Listener", "Page", "PluginContext", "PluginServices", "Task"]


@dataclass(frozen=True, slots=True)
class Page:
    """An ASGI application on the host's server, below `/PLUGIN` + `path`."""

    path: str
    app: Any


@dataclass(frozen=True, slots=True)
class Listener:
    """An ASGI application on an address of its own, `HOST:PORT`."""

    address: str
    app: Any


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """A check that the host calls for `/healthz`; it raises when the plugin is not well."""

    name: str
    check: Callable[[], None]


class PluginContext:
    """One plugin's access to the host. Everything is registered in `ctrlhost_setup`; nothing there uses the network."""

    def __init__(self, name: str, settings: Any, services: PluginServices) -> None:
        """Make the context of a plugin; called by the host."""
        self.name = name
        self.settings = settings
        self.services = services
        self.scope = PluginScope(name, services)
        self.client: Client = self.scope.writing_client(self._forbid_writes)
        self.metrics = CollectorRegistry()
        #: The plugin's own object, set in `ctrlhost_setup` for its later hooks; the host never looks at it.
        self.state: Any = None
        self.controllers: list[Controller] = []
        self.tasks: list[Task] = []
        self.pages: list[Page] = []
        self.listeners: list[Listener] = []
        self.health_checks: list[HealthCheck] = []
        #: Kinds that are read without a controller, for the rights that follow from them.
        self.reads: list[KindSource] = []
        self.informers: list[Informer] = []

    @property
    def events(self) -> PluginEvents:
        """The plugin's event recorder."""
        return self.scope.events

    @property
    def log(self) -> logging.Logger:
        """The plugin's logger; a line from a reconcile carries its controller, key and id."""
        return self.scope.log

    @property
    def clock(self) -> Clock:
        """The host's clock; a test may hold it still."""
        return self.services.clock

    @property
    def leading(self) -> bool:
        """Whether this replica leads now; without leader election always."""
        return self.services.leading()

    def _forbid_writes(self) -> None:
        """Refuse a write of a task that needs to lead and does not; what else the plugin does is its own affair."""
        if leader_only.get() and not self.leading:
            raise NotLeading(f"plugin {self.name}: the task writes nothing: this replica does not lead")

    def add_controller(
        self,
        name: str,
        reconcile: Callable[[Context, Request], Result | Awaitable[Result | None] | None],
        *sources: Source,
        workers: int = 1,
        rate_limiter: Any = None,
        timeout: float | None = None,
        needs_leader: bool = True,
        suppress_echo: bool = False,
    ) -> ControllerHandle:
        """Register a reconciler and what wakes it; PluginLoadError says what is wrong with the declaration.

        A plain function runs on `workers` threads, an `async def` as so many tasks on the plugin's event loop. A
        reconcile that is still running after `timeout` seconds is reported, and cancelled if it is `async def`.
        `suppress_echo` keeps the events of the controller's own writes from waking it.
        """
        if any(one.name == f"{self.name}/{name}" for one in self.controllers):
            raise PluginLoadError(self.name, f"plugin `{self.name}` has two controllers named `{name}`")
        options = ControllerOptions(
            workers=workers,
            rate_limiter=rate_limiter,
            timeout=timeout,
            needs_leader=needs_leader,
            suppress_echo=suppress_echo,
        ).overridden(self.services.controller_overrides.get(f"{self.name}/{name}"))
        controller = Controller(self.scope, name, reconcile, sources, options)
        self.controllers.append(controller)
        return ControllerHandle(controller)

    def informer(
        self,
        api_version: str,
        kind: str,
        *,
        namespaces: Sequence[str] | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        reads: Reads = None,
    ) -> Informer:
        """Share in an informer without a controller, for pages and tasks; it starts with the plugin's controllers."""
        source = Watches(
            api_version,
            kind,
            namespaces=namespaces,
            label_selector=label_selector,
            field_selector=field_selector,
            reads=reads,
        )
        self.reads.append(source)
        informer = self.services.factory.informer(
            api_version,
            kind,
            namespaces=watched_namespaces(self.services.client, source, self.services.namespaces),
            label_selector=label_selector,
            field_selector=field_selector,
            reads=reads,
        )
        self.informers.append(informer)
        return informer

    def add_page(self, path: str, asgi_app: Any) -> None:
        """Serve an ASGI application on the host's server below `/NAME` + `path`; `path` begins with a slash."""
        if not path.startswith("/"):
            raise PluginLoadError(self.name, f"plugin `{self.name}`: the page's path `{path}` begins with a slash")
        self.pages.append(Page(path, asgi_app))

    def add_listener(self, address: str, asgi_app: Any) -> None:
        """Serve an ASGI application on a port of its own; `address` is `HOST:PORT`."""
        _, colon, port = address.rpartition(":")
        if not colon or not port.isdigit():
            raise PluginLoadError(self.name, f"plugin `{self.name}`: `{address}` is no address of the form HOST:PORT")
        self.listeners.append(Listener(address, asgi_app))

    def add_task(
        self,
        name: str,
        run: Callable[[threading.Event], Any],
        *,
        every: float | None = None,
        needs_leader: bool = False,
    ) -> Task:
        """Register work that no object wakes: `run(stop)`, called once or every so many seconds on its own thread."""
        task = Task(
            self.name,
            name,
            run,
            every=every,
            needs_leader=needs_leader,
            clock=self.services.clock,
            loop=self.scope.loop,
        )
        self.tasks.append(task)
        return task

    def add_health_check(self, name: str, check: Callable[[], None]) -> None:
        """Register a check for `/healthz`, called on the server's thread: it raises when the plugin is not well."""
        self.health_checks.append(HealthCheck(name, check))

    def close(self, timeout: float = 1.0) -> None:
        """End what the plugin started of itself: its loop, its informers, its series; called by the host at the end."""
        self.scope.close(timeout)
        for informer in self.informers:
            informer.release()
        self.informers.clear()
        for controller in self.controllers:
            self.services.metrics.remove(controller.name)
