"""The host: it starts and shuts down plugins, informers and servers. The only module that imports all parts."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec.structs import replace as changed

from ctrlhost.clock import SystemClock
from ctrlhost.config.load import Configuration
from ctrlhost.config.settings import DEFAULT_WEBHOOK_LISTEN
from ctrlhost.coordination.term import Candidacy, Tenure
from ctrlhost.errors import ConfigError
from ctrlhost.host.clients import HostClients
from ctrlhost.host.inspection import Inspection
from ctrlhost.host.outages import Outages
from ctrlhost.host.servers import HostServers
from ctrlhost.host.signals import SIGNALS_SEEN, StopRequested, StopSignals
from ctrlhost.host.state import HostState
from ctrlhost.host.switch_interval import switching_after
from ctrlhost.supervisor.attempt import Attempt
from ctrlhost.supervisor.deadlines import Deadlines
from ctrlhost.supervisor.loader import PluginManager, installed_plugins, name_of
from ctrlhost.supervisor.processor import PluginProcessor
from ctrlhost.supervisor.review import Review
from ctrlhost.supervisor.rights import Rights
from ctrlhost.supervisor.run_directory import NoPrivateDirectory, RunDirectory
from ctrlhost.supervisor.runtime import PluginRuntime
from ctrlhost.supervisor.stop import stop_all
from ctrlhost.supervisor.threads import wait_while_busy
from ctrlhost.transport.metrics import ThreadMetrics

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from prometheus_client.registry import Collector

    from ctrlhost.client import Client
    from ctrlhost.clock import Clock
    from ctrlhost.config.settings import HostSettings
    from ctrlhost.controller.audit import AuditLog
    from ctrlhost.controller.services import PluginServices
    from ctrlhost.controller.tracing import Tracing
    from ctrlhost.coordination.leadership import Leadership
    from ctrlhost.entries import Entries
    from ctrlhost.events.recorder import EventRecorder
    from ctrlhost.host.gil_watch import GilWatch
    from ctrlhost.host.metrics_access import MetricsAccess
    from ctrlhost.host.shards import HostShards
    from ctrlhost.informers import InformerFactory
    from ctrlhost.supervisor.child import ChildAttempt

log = logging.getLogger("ctrlhost.host")

#: Seconds for writing the remaining events after a drain that used all of its time.
_EVENTS_TIMEOUT = 1.0
#: Seconds for which plugins that are imported or set up have the interpreter alone; then the servers start beside them.
_SERVED_AFTER = 5.0


class ApiServer(Protocol):
    """An API server in this process, such as the sandbox."""

    @property
    def kubeconfig(self) -> Path:
        """The path of its kubeconfig."""


class Host:
    """Runs plugins over one client and one set of informers. Several hosts in a process are independent."""

    #: Whether it probes API servers; one host of several processes does.
    _probes = True
    #: Whether settings can be checked for plugins that the host does not run.
    _names_all_plugins = True

    def __init__(
        self,
        settings: HostSettings | None = None,
        plugins: Sequence[object] = (),
        *,
        configuration: Configuration | None = None,
        client: Client | None = None,
        clock: Clock | None = None,
        sandbox: ApiServer | None = None,
        gil_watch: GilWatch | None = None,
        local_socket: bool = False,
        reread: Callable[[], Configuration] | None = None,
    ) -> None:
        """Prepare; this imports and starts nothing.

        `plugins` are names of installed plugins, or modules and objects that implement hooks; the default is the
        plugins of the settings. `configuration` holds the settings of plugins. The caller starts and stops `sandbox`.
        `gil_watch` watches the process while `run` runs; a process may have one. With `local_socket`, the host's status
        is served to this user at a Unix socket in the private directory. At a SIGHUP, `run` calls `reread`, and takes
        over what has changed and needs no restart.
        """
        configuration = configuration or Configuration.gather()
        chosen = _without_lease(settings or configuration.host)
        chosen = _on_loopback(chosen) if sandbox is not None else chosen
        self.state = HostState(chosen, configuration, client=client)
        self.clock: Clock = clock or SystemClock()
        self._own_client = client is None
        self._sandbox = sandbox
        self._manager = PluginManager()
        self._deadlines = Deadlines(lambda: [entries for plugin in self.plugins for entries in plugin.all_entries()])
        self._plugin_objects: dict[str, object] = {}
        #: What the servers show.
        self.inspection = Inspection(self.state)
        self._changes = threading.Condition()
        for plugin in plugins or self.settings.plugins:
            self._add(plugin)
        self._servers = HostServers(self.state, self.clock)
        #: What protects the metrics' own address; None for nothing.
        self._metrics_access: MetricsAccess | None = None
        self._local_socket = local_socket
        self._directory: RunDirectory | None = None
        self._outages = Outages(lambda: self.factory, lambda: self.client, self.clock)
        self._review = Review(self.plugins, self.clock, self._each_second)
        self._rights = Rights(self.plugins)
        self._prepared = self._served = False
        self._stopped = False
        #: Without leader election, each host leads until it has drained.
        self._tenure = Tenure.endless()
        self._signals = StopSignals(self.stopping, self._notify, self._signalled)
        self._gil_watch = gil_watch
        self._reread = reread
        #: Whether all work has ended in time; true until `run` ends.
        self.drained = True
        self._clients = HostClients(configuration, self.clock, self.state.api_servers, probes=self._probes)
        self.events: EventRecorder | None = None

    @property
    def settings(self) -> HostSettings:
        """The settings of the host itself."""
        return self.state.settings

    @property
    def configuration(self) -> Configuration:
        """All settings."""
        return self.state.configuration

    @property
    def plugins(self) -> list[PluginRuntime]:
        """The plugins, in the order in which they were named."""
        return self.state.plugins

    @property
    def stopping(self) -> threading.Event:
        """Set when the host shuts down."""
        return self.state.stopping

    @property
    def client(self) -> Client | None:
        """The client of the host; None before its start."""
        return self.state.client

    @property
    def factory(self) -> InformerFactory | None:
        """The informers that the plugins share; None before the start."""
        return self.state.factory

    @property
    def leadership(self) -> Leadership | None:
        """The leader elections; None without any."""
        return self.state.leadership

    def _add(self, plugin: object) -> None:
        name = plugin if isinstance(plugin, str) else name_of(plugin)
        runtime = PluginRuntime(name, self.clock, self._plugin_changed, self._deadlines.notify)
        if any(other.name == name for other in self.plugins):
            if plugin in (name, self._plugin_objects.get(name)):
                return
            runtime.fail("another plugin of this name is already in the host")
        elif not isinstance(plugin, str):
            self._plugin_objects[name] = plugin
        self.plugins.append(runtime)

    def prepare(self) -> None:
        """Check all settings and that the host's address is free, and import the plugins, without running anything yet.

        Plugins are imported at once, each on its own thread; a plugin that hangs is left to its deadline. ConfigError
        for invalid settings or an address in use; PluginNotFound for a plugin that is not installed. Other errors fail
        only their plugin. `start` calls this; after an error, `stop` ends what has begun.
        """
        if self._prepared:
            return
        named = [plugin.name for plugin in self.plugins]
        if self._names_all_plugins:
            self.configuration.check_names([*named, *installed_plugins()])
        _ = self.configuration.controllers, self.configuration.otel
        if self.settings.log_levels and self._names_all_plugins:
            from ctrlhost.host.log_levels import check

            check(self.settings.log_levels, [*named, *installed_plugins()])
        enabled = [self.configuration.supervision(name).enabled for name in named]
        if named and not any(enabled):
            raise ConfigError("supervision: every plugin is disabled", hint="set `enabled` of one of them to true")
        if self.settings.leader_elect_plugins:
            from ctrlhost.coordination.leadership import check_plugins

            check_plugins(self.settings, named)
        if self.settings.metrics_tls:
            from ctrlhost.host.metrics_access import MetricsAccess

            self._metrics_access = MetricsAccess(self.settings, lambda: self.client, self.clock)
        self._servers.check(self.settings)
        if self._own_client and self._probes and self._sandbox is None:
            # The handshake takes place while the plugins are imported.
            self.state.client = self._clients.load_ahead(self.settings)
        if len(named) > 1:
            # A plugin that breaks what all share, such as imports, must not take the servers from the others.
            _import_all()
            self.serve()
        own_client = self._own_client or self._sandbox is not None
        if any(self.configuration.supervision(name).process == "own" for name in named):
            # Not for a host without such plugins, whose start it would delay.
            from ctrlhost.host.children import make_children

            children = make_children(
                self.plugins, self.settings, self.configuration, self._plugin_objects, own_client, self._run_directory
            )
            self.state.children = children
            if children is not None:
                children.serve_webhooks(lambda: self._servers.webhooks)
        self._deadlines.start()
        for runtime in self.plugins:
            runtime.begin(self._manager, self._plugin_objects.get(runtime.name), self.configuration)
        self._wait_for_plugins(lambda attempt: attempt.configured)
        for runtime in self.plugins:
            runtime.prepared()
        self._prepared = True

    def _run_directory(self) -> RunDirectory:
        if self._directory is None:
            self._directory = RunDirectory()
        return self._directory

    def _wait_for_plugins(self, what: Callable[[Attempt | ChildAttempt], threading.Event]) -> None:
        """Wait for the plugins, and answer probes meanwhile if that takes long."""
        attempts = self._attempts()
        wait_while_busy([(what(attempt), attempt.processor_seconds) for attempt in attempts], _SERVED_AFTER)
        if not all(what(attempt).is_set() for attempt in attempts):
            self.serve()
            wait_while_busy((what(attempt), attempt.processor_seconds) for attempt in attempts)

    def serve(self) -> None:
        """Start the host's own servers, once; ConfigError for an address in use."""
        if self._served:
            return
        self._served = True
        self._start_servers()

    def _start_servers(self) -> None:
        self._servers.serve(self.settings, self.inspection, self._metrics_access)
        if self._local_socket:
            self._serve_local()

    def _log_addresses(self) -> None:
        """Log where the host listens, once its plugins are set up, so that whoever waits for these lines finds them."""
        for name, address in self._servers.addresses.items():
            if name == "socket":
                log.info("local socket at %s", address.removeprefix("unix:"))
            else:
                scheme = "https" if name == "metrics" and self.settings.metrics_tls else "http"
                log.info("%s on %s://%s", "listening" if name == "status" else f"serving {name}", scheme, address)

    def _serve_local(self) -> None:
        from ctrlhost.host.admin import Admin

        try:
            socket = self._run_directory().socket
        except NoPrivateDirectory as error:
            log.warning("no local socket, so commands cannot attach to this host: %s", error.message)
        else:
            self._servers.serve_local(socket, self.inspection, Admin(self.state))

    def _attempts(self) -> list[Attempt | ChildAttempt]:
        return [plugin.attempt for plugin in self.plugins if plugin.attempt is not None]

    def start(self) -> None:
        """Prepare, set up the plugins, start the servers, and begin to sync, without waiting for the sync.

        A plugin that hangs in its set-up joins later. ConfigError as for `prepare`, for an invalid kubeconfig and for
        settings of controllers that do not exist. RuntimeError for a host that was started or stopped before.
        """
        if self._stopped or self.factory is not None:
            raise RuntimeError("a host starts only once, and not after `stop`: create another one")
        self.prepare()
        self.set_up()
        self.configuration.check_controllers({runtime.name: runtime.controller_names for runtime in self.plugins})
        self.begin(with_crds=self.settings.install_crds or self.settings.sandbox or self._sandbox is not None)

    def set_up(self) -> None:
        """Set up the plugins, which do not sync yet; the second part of `start`."""
        services = self._services(self.configuration.controllers)
        for runtime in self.plugins:
            runtime.set_up(self._services_of(runtime, services), self._servers.open)
        self._wait_for_plugins(lambda attempt: attempt.set_up)
        for runtime in self.plugins:
            runtime.is_set_up()

    def begin(self, *, with_crds: bool | Literal["force"]) -> None:
        """Allow the plugins to sync, and to run once the host is complete; the third part of `start`."""
        if self.events is not None:
            self.events.start()
        if self.leadership is not None and self.factory is not None:
            self.leadership.start(self.factory)
        for runtime in self.plugins:
            if runtime.attempt is None or not runtime.attempt.set_up.is_set():
                # Its peers do not wait for the CRDs of a plugin that hangs before it could name them.
                runtime.crds_tried.set()
        for runtime in self.plugins:
            runtime.run(with_crds=with_crds, peers=self.plugins, only_sync=True)
        asked = [
            (attempt.asked, attempt.processor_seconds) for attempt in self._attempts() if isinstance(attempt, Attempt)
        ]
        wait_while_busy(asked, _SERVED_AFTER)
        # What follows is imported while the first lists come in.
        self._register_metrics()
        self.serve()
        self._log_addresses()
        self._review.start()
        self._rights.start()
        for runtime in self.plugins:
            runtime.work()
        if self.state.shards is not None:
            self.state.shards.start()

    def _services(self, overrides: Mapping[str, Any]) -> Any:
        from ctrlhost.controller.clients import ClientCounts
        from ctrlhost.controller.metrics import ReconcileMetrics
        from ctrlhost.controller.services import PluginServices
        from ctrlhost.events.recorder import EventRecorder

        sandbox = self._sandbox.kubeconfig if self._sandbox is not None else None
        client = self.client or self._clients.load(self.settings, sandbox)
        state = self.state
        factory = state.factory = self._make_factory(client)
        client = state.client = self._clients.connect(client, factory, dry_run=self.settings.dry_run)
        children = state.children
        cpu_seconds = children.cpu_seconds if children is not None else lambda _name: 0.0
        state.processor = PluginProcessor(self.plugins, cpu_seconds)
        self.events = EventRecorder(client, self.clock)
        if children is not None:
            children.serve(factory, client, sandbox)
        if self.settings.leader_elect:
            from ctrlhost.coordination.leadership import Leadership

            named = [plugin.name for plugin in self.plugins if not self._elects_itself(plugin)]
            state.leadership = Leadership(self.settings, named, client, self.clock, self.events, self._on_election)
        state.shards = self._make_shards(client, factory)
        if client.metrics is not None:
            client.metrics.on_write = state.writes.wrote
            client.metrics.on_forbidden = self._rights.forbidden
        state.services = PluginServices(
            client=client,
            factory=factory,
            clock=self.clock,
            events=self.events,
            stopping=self.stopping,
            controller_overrides=dict(overrides),
            metrics=ReconcileMetrics(),
            namespaces=self.settings.namespaces,
            plugins=self._enabled_plugins(),
            supervision=self.configuration.supervision,
            entries=self._entries,
            candidacy=Candidacy(self._tenure),
            account=self._clients.of_account,
            client_counts=ClientCounts(),
            pauses=state.pauses,
            addressed=self._addressed,
            audit=self._audit_log(),
            tracing=self._tracing(),
            shards=state.shards.keys if state.shards is not None else None,
        )
        return state.services

    def _enabled_plugins(self) -> tuple[str, ...]:
        names = [plugin.name for plugin in self.plugins]
        return tuple(name for name in names if self.configuration.supervision(name).enabled)

    def _audit_log(self) -> AuditLog | None:
        if not self.settings.audit_log or self.settings.dry_run:
            return None
        from ctrlhost.controller.audit import AuditLog

        return AuditLog(self.settings.audit_log, self._clients.cached)

    def _tracing(self) -> Tracing | None:
        if not self.configuration.otel.endpoint:
            return None
        from ctrlhost.controller.tracing import Tracing

        return Tracing(self.configuration.otel)

    def _make_shards(self, client: Client, factory: InformerFactory) -> HostShards | None:
        """Return this replica's part in the keys that replicas share; None if they do not."""
        if not self.configuration.sharded or not self.settings.leader_elect:
            return None
        from ctrlhost.host.shards import HostShards

        return HostShards(self.plugins, self.configuration.shards, self.settings, client, factory, self.clock)

    def _addressed(self, crd: dict[str, Any]) -> dict[str, Any]:
        webhooks = self.state.webhooks
        return crd if webhooks is None else webhooks.registration.addressed(crd)

    def _register_metrics(self) -> None:
        from ctrlhost.host.metrics import of_host
        from ctrlhost.host.queue_metrics import QueueCollector

        state, services = self.state, self.state.services
        if services is None or state.factory is None:
            return
        metrics = state.metrics or of_host(self.plugins)
        own: list[Collector | None] = [self._gil_watch, services.metrics, services.client_counts]
        own += [state.api_servers if self._probes else None, QueueCollector(self._is_ours, self._stands_by)]
        own += [None if metrics.child else state.processor, self._metrics_access, state.children]
        own.append(state.leadership.metrics if state.leadership is not None else None)
        if state.shards is not None:
            from ctrlhost.host.shard_metrics import ShardMetrics

            own.append(ShardMetrics(state.shards))
            services.client_counts.refusals.reasons += ("shard",)
            if state.leadership is not None:
                state.leadership.metrics.add(state.shards.membership.elector)
        # The host answers for isolated plugins, too.
        own.append(None if metrics.child else self._servers)
        for collector in own:
            if collector is not None:
                metrics.register(collector)
        for collector in (state.factory.metrics, ThreadMetrics(), self._servers.counts, services.client.metrics):
            if collector is not None:
                metrics.register_own(collector)
        state.metrics = metrics

    def _each_second(self) -> None:
        self._outages.check()
        if self.state.processor is not None:
            self.state.processor.look()
        self.inspection.reports.reader.samples.check()

    def _make_factory(self, client: Client) -> InformerFactory:
        from ctrlhost.informers import Compressions, Encodings, InformerFactory, ReflectorOptions

        informers = self.configuration.informers
        options = ReflectorOptions(
            memory_budget=informers.memory_budget,
            max_object=informers.max_object,
            encodings=Encodings(*self.configuration.encodings),
            compressions=Compressions(*self.configuration.compressions),
        )
        return InformerFactory(client, resync=self.settings.resync, clock=self.clock, options=options)

    def _elects_itself(self, plugin: PluginRuntime) -> bool:
        return self.state.children is not None and self.state.children.elects(plugin.name)

    def _entries(self, plugin: str) -> Entries:
        """Return the entries of a plugin of this host."""
        return next(runtime.entries for runtime in self.plugins if runtime.name == plugin)

    def _services_of(self, runtime: PluginRuntime, services: PluginServices) -> PluginServices:
        """Return the services of one plugin; with leader election, the leader differs by plugin."""
        if self.leadership is None or self._elects_itself(runtime):
            return services
        return replace(services, candidacy=self.leadership.candidacy(runtime.name))

    def _on_election(self, plugins: Collection[str]) -> None:
        if self.state.webhooks is not None:
            self.state.webhooks.registration.changed()
        for plugin in self.plugins:
            if plugin.name in plugins:
                plugin.wake()

    def _is_ours(self, row: Mapping[str, Any]) -> bool:
        """Return whether a queue of this process belongs to a controller that this host runs now.

        Not by its name: another host may have a controller of that name, and a restarted plugin had one before.
        """
        controllers = (controller for plugin in self.plugins for controller in plugin.controllers)
        return any(controller.name == row["name"] and controller.queue.id == row["id"] for controller in controllers)

    def _stands_by(self, row: Mapping[str, Any]) -> bool:
        """Return whether another replica runs the controller of a queue of this host."""
        controllers = (controller for plugin in self.plugins for controller in plugin.controllers)
        return any(controller.queue.id == row["id"] and not controller.leading for controller in controllers)

    def wait_ready(self, timeout: float) -> bool:
        """Wait for at most `timeout` real seconds until no plugin is syncing; return whether none is."""
        with self._changes:
            return self._changes.wait_for(lambda: all(plugin.settled() for plugin in self.plugins), timeout)

    def stop(self, timeout: float | None = None) -> bool:
        """Shut down: let running work finish for up to `timeout` seconds, then end everything; True if all finished.

        The default is the setting `drain_timeout`. A second call does nothing.
        """
        if self._stopped:
            return True
        self.stopping.set()
        self.inspection.changed()
        if self.state.shards is not None:
            # The plugins work until others have taken over.
            self.state.shards.hand_over(timeout)
        deadline = time.monotonic() + (self.settings.drain_timeout if timeout is None else timeout)
        if self.state.webhooks is not None:
            # Before its plugins end, which answer no more then.
            self.state.webhooks.registration.stop()
        self._review.stop()
        self._rights.stop()
        drained = stop_all(self.plugins, deadline)
        if self.events is not None:
            # Those of plugins are sent only while this replica leads.
            self.events.flush(max(_EVENTS_TIMEOUT, deadline - time.monotonic()))
        self._stopped = True
        self._tenure.end()
        if self.state.shards is not None:
            self.state.shards.stop(drained=len(drained) == len(self.plugins))
        if self.leadership is not None:
            # Another replica may lead only after all work of this leader has ended.
            self.leadership.stop(drained)
        if self.events is not None:
            self.events.stop(_EVENTS_TIMEOUT)
        if self.state.children is not None:
            self.state.children.stop()
        self._clients.stop()
        if self.factory is not None:
            self.factory.stop()
        self._servers.stop(self.inspection)
        if (services := self.state.services) is not None:
            if services.audit is not None:
                services.audit.close()
            if services.tracing is not None:
                services.tracing.close()
        if self._directory is not None:
            self._directory.close()
        self._deadlines.stop()
        if self._own_client and self.client is not None:
            self.client.close()
        self._notify()
        return len(drained) == len(self.plugins)

    def run(self) -> int:
        """Start, run until a signal arrives or every plugin has failed, then stop; return the exit code.

        SIGTERM and SIGINT let running reconciles finish; a second one ends the process at once, with code 1. SIGHUP
        reloads the settings, or if the terminal was closed, is as SIGTERM.
        Must be called in the main thread.
        """
        watched = self._gil_watch or nullcontext()
        with watched, self._signals.caught(), switching_after(self.settings.switch_interval):
            return self._run()

    def _run(self) -> int:
        try:
            with self._signals.interrupting():
                self.start()
        except StopRequested:
            log.debug("signal while starting: shutting down")
        except BaseException:
            self.stop(0)
            raise
        while not self._is_over():
            with self._changes:
                # A signal just before a wait is noticed only after it, so each wait needs a limit.
                self._changes.wait_for(lambda: self._is_over() or self._signals.reload, SIGNALS_SEEN)
            if self._signals.reload:
                self._signals.reload = False
                self._reload()
        if self._signals.received:
            log.info("%s: shutting down; repeat to force exit", self._signals.received)
        failed = self._all_failed() and not self.stopping.is_set()
        if failed:
            log.error("stopping: every plugin has failed")
        self.drained = self.stop()
        if not self.drained:
            log.error("shutdown incomplete: work did not finish within %s", self.settings.drain_timeout)
        # Not at the start of a host that logs elsewhere.
        from ctrlhost.host import logs

        # Else they come after the last line.
        logs.sum_up()
        log.info("stopped")
        return 1 if failed else 0

    def _signalled(self) -> None:
        if self._gil_watch is not None:
            self._gil_watch.stopping(self.settings.drain_timeout)

    def _is_over(self) -> bool:
        return self.stopping.is_set() or self._all_failed()

    def _reload(self) -> None:
        if self._reread is None:
            log.warning("SIGHUP: nothing to reload: this host was given its settings by a program")
            return
        from ctrlhost.host.reload import reload

        reload(self.state, self._reread)

    def _all_failed(self) -> bool:
        enabled = [plugin for plugin in self.plugins if plugin.state != "disabled"]
        return bool(enabled) and all(plugin.failed for plugin in enabled)

    def _plugin_changed(self) -> None:
        self.inspection.changed()
        if self.state.shards is not None:
            self.state.shards.wake()
        self._notify()

    def _notify(self) -> None:
        with self._changes:
            self._changes.notify_all()

    @property
    def address(self) -> str | None:
        """The address of the host's server; None without one."""
        return self._servers.address

    @property
    def metrics_address(self) -> str | None:
        """The address of the setting `listen_metrics`; None without one."""
        return self._servers.addresses.get("metrics")

    @property
    def webhook_address(self) -> str | None:
        """The address of the webhooks of plugins; None without any."""
        return self.state.webhooks.address if self.state.webhooks is not None else None


def _without_lease(settings: HostSettings) -> HostSettings:
    """Return the settings, in a dry run without leader election: the host acts as if it led."""
    return changed(settings, leader_elect=False, leader_elect_plugins=()) if settings.dry_run else settings


def _on_loopback(settings: HostSettings) -> HostSettings:
    """Return the settings of a host beside its API server, which registers its webhooks by URL."""
    if settings.webhook_url is not None:
        return settings
    listen = settings.webhook_listen
    listen = "127.0.0.1:0" if listen == DEFAULT_WEBHOOK_LISTEN else listen
    return changed(settings, webhook_listen=listen, webhook_url="https://127.0.0.1:0")


def _import_all() -> None:
    """Import what the host and plugins use, before several plugins are imported, each on its own thread.

    Threads that import modules which need each other may see half of one, or find themselves in a deadlock. A single
    plugin is imported alone, and the host's own imports follow when its first lists are asked.
    """
    for home in sorted(set(import_module("ctrlhost")._HOMES.values())):  # noqa: SLF001 - of this package
        import_module(home)
    import ctrlhost.controller.metrics
    import ctrlhost.controller.services
    import ctrlhost.coordination.leadership
    import ctrlhost.host.metrics
    import ctrlhost.host.pages
    import ctrlhost.host.queue_metrics
    import ctrlhost.supervisor.plugin_file  # noqa: F401
