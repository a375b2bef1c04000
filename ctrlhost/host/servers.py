"""The HTTP servers of a host: its own, and those of its plugins."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from ctrlhost.controller.event_loop import PluginLoop
from ctrlhost.errors import ConfigError, PluginLoadError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from prometheus_client.core import Metric
    from starlette.types import ASGIApp, Receive, Scope, Send

    from ctrlhost._core import ServerTls
    from ctrlhost.clock import Clock
    from ctrlhost.config.settings import HostSettings
    from ctrlhost.host.admin import Admin
    from ctrlhost.host.inspection import Inspection
    from ctrlhost.host.metrics_access import MetricsAccess
    from ctrlhost.host.state import HostState
    from ctrlhost.host.webhooks.serving import Webhooks
    from ctrlhost.plugin.context import PluginContext
    from ctrlhost.server.counts import HttpCounts
    from ctrlhost.server.limits import Limits
    from ctrlhost.server.listener import Front, HttpServer

log = logging.getLogger("ctrlhost.host")

#: Seconds that requests in progress may take at the shutdown.
_TIMEOUT = 2.0


class HostServers:
    """All servers of one host; imports the modules that they need on first use."""

    def __init__(self, state: HostState, clock: Clock) -> None:
        """Start without servers for a host of this state."""
        self._state = state
        self._clock = clock
        self._making = threading.Lock()
        #: The host's own servers, by what they serve.
        self._own: dict[str, HttpServer] = {}
        #: Answers probes, also at an address that serves everything.
        self._probes = PluginLoop("probes")
        #: Answers what is neither a probe nor a page.
        self._status = PluginLoop("host")
        self._counts: HttpCounts | None = None
        self._turning = False
        #: What protects the metrics' own address; None for nothing.
        self._access: MetricsAccess | None = None

    @property
    def counts(self) -> HttpCounts:
        """The counts of all listeners."""
        if self._counts is None:
            from ctrlhost.server.counts import HttpCounts

            self._counts = HttpCounts()
        return self._counts

    @property
    def address(self) -> str | None:
        """The address of the setting `listen`; None without one."""
        return self.addresses.get("status")

    @property
    def addresses(self) -> dict[str, str]:
        """The addresses of the host's own servers: `status`, `probes`, `metrics` and `socket`, as far as they exist."""
        return {name: server.address for name, server in self._own.items()}

    def check(self, settings: HostSettings) -> None:
        """Raise ConfigError if an address of the settings cannot be bound now; `serve` binds it."""
        from ctrlhost.server.addresses import bind

        own = {"listen_probes": settings.own_probes, "listen_metrics": settings.own_metrics, "listen": True}
        for name, is_own in own.items():
            if is_own and (address := getattr(settings, name)):
                for listening in bind(address, f"host.{name}"):
                    listening.close()

    def serve(self, settings: HostSettings, inspection: Inspection, access: MetricsAccess | None = None) -> None:
        """Bind the addresses of the settings and answer requests; ConfigError if one is in use.

        Probes and metrics without an address of their own are served at `listen`. `access` protects the metrics' own.
        """
        from ctrlhost.server.admin import with_admin
        from ctrlhost.server.app import host_app, metrics_app, probes_app, status_app
        from ctrlhost.server.limits import METRICS, PROBES, STATUS
        from ctrlhost.server.listener import Front

        hosts, listen = settings.allowed_hosts, settings.listen
        own_probes, own_metrics = settings.own_probes, settings.own_metrics
        if listen:
            front = Front(hosts, inspection.probes, answers_probes=not own_probes, shows_metrics=not own_metrics)
            if own_probes:
                app, loop = status_app(inspection, metrics=not own_metrics), self._status
            else:
                app, loop = host_app(inspection, self._status, metrics=not own_metrics), self._probes
            self._bind("status", listen, with_admin(app), "host.listen", STATUS, loop, front)
        if own_probes and (address := settings.listen_probes):
            app, front = with_admin(probes_app(inspection)), Front(None, inspection.probes, answers_probes=True)
            self._bind("probes", address, app, "host.listen_probes", PROBES, self._probes, front)
        if own_metrics and (address := settings.listen_metrics):
            app, tls, is_open = metrics_app(inspection), None, settings.metrics_auth == "none"
            if access is not None:
                app, tls = access.protect(app), access.tls
                self._access = access
            # A web page cannot know a token, whatever name it asks by; and only Python can ask about tokens.
            front = Front(hosts if is_open else None, inspection.probes, shows_metrics=is_open)
            app = with_admin(app)
            self._bind("metrics", address, app, "host.listen_metrics", METRICS, self._status, front, tls)
        if self._own:
            self._inspect(inspection)
        for server in self._own.values():
            server.start()
        if self._access is not None:
            self._access.start()
        if "status" in self._own and not self._own["status"].is_local:
            served = "status, errors, queues and pages of plugins" + ("" if own_metrics else ", metrics")
            log.warning("everybody who reaches %s may read without authentication: %s", self.address, served)

    def serve_local(self, socket: Path, inspection: Inspection, admin: Admin) -> None:
        """Answer at a Unix socket for this user what the status address answers, and what `admin` does."""
        from ctrlhost.server.admin import admin_app, with_admin
        from ctrlhost.server.app import status_app
        from ctrlhost.server.limits import ADMIN
        from ctrlhost.server.listener import Front

        app, front = with_admin(status_app(inspection, metrics=False), admin_app(admin)), Front(None, inspection.probes)
        self._inspect(inspection)
        self._bind("socket", f"unix:{socket}", app, "host.admin", ADMIN, self._status, front).start()

    def serve_host(self, socket: str, inspection: Inspection) -> None:
        """Answer at this Unix socket, in the process of an isolated plugin, what its host shows of it."""
        from ctrlhost.server.app import PATIENCE, host_app
        from ctrlhost.server.limits import PLUGIN
        from ctrlhost.server.proxy import behind_proxy

        inspection.start()
        # The host waits for this process as long as for its own plugins.
        app = behind_proxy(self._with_webhooks(host_app(inspection, self._status, PATIENCE / 2)))
        self._bind("child", f"unix:{socket}", app, "host.listen", PLUGIN, self._probes).start()

    def _with_webhooks(self, others: ASGIApp) -> ASGIApp:
        """Return the app of the process of an isolated plugin, which also answers for its webhooks."""

        async def chosen(scope: Scope, receive: Receive, send: Send) -> None:
            webhooks = self._state.webhooks
            app = others if webhooks is None else webhooks.in_child(others)
            await app(scope, receive, send)

        return chosen

    @property
    def webhooks(self) -> Webhooks:
        """The webhooks of the plugins, which the first plugin that has some makes."""
        with self._making:
            if self._state.webhooks is None:
                from ctrlhost.host.webhooks.serving import Webhooks

                self._state.webhooks = Webhooks(self._state, self._clock, self.counts)
            return self._state.webhooks

    def collect(self) -> Iterator[Metric]:
        """Return the metrics of the webhooks, if there are any; called by prometheus-client at each scrape."""
        if self._state.webhooks is not None:
            yield from self._state.webhooks.collect()

    def _inspect(self, inspection: Inspection) -> None:
        inspection.start()
        if not self._turning:
            self._turning = True
            # No code of a plugin runs on this loop.
            self._probes.submit(inspection.turn())

    def _bind(
        self,
        name: str,
        address: str,
        app: ASGIApp,
        setting: str,
        limits: Limits,
        loop: PluginLoop,
        front: Front | None = None,
        tls: ServerTls | None = None,
    ) -> HttpServer:
        from ctrlhost.server.listener import HttpServer

        counts = self.counts.of(name)
        server = HttpServer(address, app, name, setting, limits=limits, counts=counts, loop=loop, tls=tls, front=front)
        self._own[name] = server
        return server

    def open(self, context: PluginContext) -> Callable[[], None]:
        """Serve the listeners and the webhooks of a plugin; return a function that ends them.

        ConfigError for an address of a setting that is in use; PluginLoadError for one of the plugin itself.
        """
        if not (context.webhooks or context.conversions):
            return self._open_listeners(context)
        end = self.webhooks.open(context)
        try:
            close = self._open_listeners(context)
        except BaseException:
            end()
            raise

        def close_all() -> None:
            end()
            close()

        return close_all

    def _open_listeners(self, context: PluginContext) -> Callable[[], None]:
        if not context.listeners:
            return lambda: None
        from ctrlhost.host.pages import on_loop
        from ctrlhost.server.listener import HttpServer

        servers: list[HttpServer] = []

        def close() -> None:
            for server in servers:
                server.stop(_TIMEOUT)

        try:
            for address, listener in context.listeners:
                app = on_loop(context, "listener", address, listener)
                counts, setting = self.counts.of(f"plugin/{context.name}"), context.address_settings.get(address)
                what = f"plugins.{context.name}.{setting} and its port" if setting else f"listener of {context.name}"
                try:
                    servers.append(HttpServer(address, app, context.name, what, counts=counts))
                except ConfigError as error:
                    if setting:
                        raise
                    # No setting of the operator: a mistake of the plugin.
                    raise PluginLoadError(context.name, error.message, hint=error.hint) from None
        except BaseException:
            close()
            raise
        for server in servers:
            server.start()
            log.info("plugin %s listens on http://%s", context.name, server.address)
        return close

    def stop(self, inspection: Inspection) -> None:
        """Stop the host's own servers; those of plugins end with them."""
        if self._access is not None:
            self._access.stop()
        if self._state.webhooks is not None:
            self._state.webhooks.stop()
        for server in self._own.values():
            server.stop(_TIMEOUT)
        for loop in (self._probes, self._status):
            loop.stop(_TIMEOUT)
        inspection.stop()
