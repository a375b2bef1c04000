"""The webhooks of a host: which path leads to which plugin, the listener, and how both are."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctrlhost.controller.event_loop import PluginLoop
from ctrlhost.errors import PluginLoadError
from ctrlhost.health import Check
from ctrlhost.host.webhooks.counts import WebhookMetrics
from ctrlhost.host.webhooks.endpoints import ChildEndpoint, LocalEndpoint, PluginWebhooks
from ctrlhost.host.webhooks.registration import Registration
from ctrlhost.server.addresses import bind
from ctrlhost.server.certificates import ServerCertificate
from ctrlhost.server.key_pairs import FilePairs, KeyPairs
from ctrlhost.server.limits import WEBHOOKS
from ctrlhost.server.listener import HttpServer
from ctrlhost.server.webhooks import child_app, webhook_app
from ctrlhost.status.model import WebhookStatus
from ctrlhost.supervisor.channel import WebhookRoute
from ctrlhost.webhooks.configurations import entry_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client.core import Metric
    from starlette.types import ASGIApp

    from ctrlhost.clock import Clock
    from ctrlhost.host.webhooks.counts import WebhookCounts
    from ctrlhost.host.webhooks.parts import HostParts
    from ctrlhost.plugin.context import PluginContext
    from ctrlhost.server.counts import HttpCounts
    from ctrlhost.webhooks.conversion import Converters
    from ctrlhost.webhooks.webhook import Webhook

    #: What answers at a path, and its counts.
    Route = tuple[LocalEndpoint | ChildEndpoint, WebhookCounts]

log = logging.getLogger("ctrlhost.host")

_SETTING = "host.webhook_listen"
#: Seconds that requests in progress may take at the shutdown.
_TIMEOUT = 2.0


class Webhooks:
    """The webhooks of one host, and their listener; a collector for prometheus-client. Callable from any thread."""

    def __init__(self, state: HostParts, clock: Clock, http_counts: HttpCounts) -> None:
        """Start without webhooks; the first plugin that has some opens the listener of the settings."""
        self._settings = state.settings
        self._clock = clock
        self._http_counts = http_counts
        self._lock = threading.Lock()
        self._loop = PluginLoop("webhooks")
        self._routes: dict[str, Route] = {}
        #: What the plugins of this process do, by plugin.
        self._plugins: dict[str, PluginWebhooks] = {}
        self._metrics = WebhookMetrics()
        self._opening, self._listens = threading.Lock(), False
        self._certificate: ServerCertificate | None = None
        self._server: HttpServer | None = None
        self._address: str | None = None
        #: Why there is no certificate yet.
        self._waits = "no certificate yet"
        #: The entries of the webhook configurations by plugin and path; those of conversions are empty.
        self.entries: dict[str, dict[str, dict[str, Any]]] = {}
        #: How the API server comes to know the webhooks.
        self.registration = Registration(state, self, clock)

    @property
    def address(self) -> str | None:
        """The address of the listener; None before it serves."""
        return self._address

    def open(self, context: PluginContext) -> Callable[[], None]:
        """Answer for the webhooks of a plugin; return a function that ends this.

        ConfigError for an address that cannot be bound, or an unusable certificate; PluginLoadError for a conversion
        that another plugin has, too.
        """
        plugin = PluginWebhooks(context)
        check = self._settings.check_mutators
        webhooks: list[Webhook | Converters] = [*context.webhooks, *context.conversions]
        self._add(context.name, [LocalEndpoint(plugin, webhook, check_stability=check) for webhook in webhooks])
        self._plugins[context.name] = plugin
        self.entries[context.name] = _entries(context)
        self._listen()
        return plugin.end

    def follow(self, plugin: str, routes: Iterable[WebhookRoute], app: Callable[[float], ASGIApp]) -> None:
        """Answer from the process of an isolated plugin, as `open`; `app` returns what asks it for so many seconds."""
        paths = (f"/validate/{plugin}/", f"/mutate/{plugin}/", "/convert/")
        own = [route for route in routes if route.path.startswith(paths)]
        self._add(plugin, [ChildEndpoint(plugin, route.path, route.timeout, app(route.timeout)) for route in own])
        self.entries[plugin] = {route.path: route.entry for route in own}
        self._listen()

    def _add(self, plugin: str, endpoints: Iterable[LocalEndpoint | ChildEndpoint]) -> None:
        with self._lock:
            for endpoint in endpoints:
                path, known = endpoint.path, self._routes.get(endpoint.path)
                if known is not None and known[0].plugin != plugin:
                    text = f"plugin `{known[0].plugin}` answers at {path} already"
                    raise PluginLoadError(plugin, text, hint="run one of the two plugins, or drop its conversions")
                self._routes[path] = endpoint, self._metrics.of(plugin, path, endpoint.timeout)

    def find(self, path: str) -> Route | None:
        """Return what answers at a path, and its counts; None for an unknown one."""
        return self._routes.get(path)

    def in_child(self, others: ASGIApp) -> ASGIApp:
        """Return the application of the process of an isolated plugin, which its host asks, too."""
        return child_app(self.find, others)

    def _listen(self) -> None:
        """Open the listener, unless it is open."""
        if not (address := self._settings.webhook_listen):
            return
        with self._opening:
            if not self._listens:
                # An address in use is found now, whenever the certificate comes.
                for listening in bind(address, _SETTING):
                    listening.close()
                directory = self._settings.webhook_cert_dir
                source = self.registration.source() if directory is None else _files(directory)
                if source is not None:
                    self.certify(source)
                self._listens = True
                self.registration.start()
        self.registration.changed()

    def certify(self, source: KeyPairs) -> None:
        """Serve with the certificates of `source`, once; ConfigError for an unusable one, or an address in use."""
        certificate = ServerCertificate("webhooks", source, self._clock)
        server = HttpServer(
            self._settings.webhook_listen,
            webhook_app(self.find),
            "webhooks",
            _SETTING,
            limits=WEBHOOKS,
            counts=self._http_counts.of("webhooks"),
            loop=self._loop,
            tls=certificate.tls,
        )
        self._certificate = certificate
        certificate.start()
        server.start()
        self._server, self._address = server, server.address
        log.info("serving webhooks on https://%s", self._address)

    def waits(self, reason: str) -> None:
        """Note why there is no certificate yet."""
        self._waits = reason

    def check(self) -> Check:
        """Return the line of the listener: ready when it serves."""
        if not self._settings.webhook_listen:
            return Check("webhooks", passed=True, detail=f"not served: {_SETTING} is empty")
        detail = f"serving on https://{self._address}" if self._address is not None else self._waits
        return Check("webhooks", passed=self._address is not None, detail=detail)

    def checks(self, plugin: str) -> list[Check]:
        """Return the line of a plugin of this process: ready when the caches are full that its webhooks read."""
        webhooks = self._plugins.get(plugin)
        if webhooks is None or webhooks.ended:
            return []
        load = webhooks.pool.load()
        detail = f"{load.running} running, {load.queued} queued"
        if load.overdue:
            detail += f"; stuck: {load.overdue} beyond the deadline"
        if unread := webhooks.unread():
            detail += f"; not synced yet: {', '.join(unread)}"
        return [Check(f"webhooks/{plugin}", passed=not unread, detail=detail)]

    def rows(self, per_second: Callable[[str, float], float | None]) -> list[WebhookStatus]:
        """Return the status of each webhook; `per_second` returns the rate of a number that only grows, by name."""
        rows = []
        for counts in self._metrics.all():
            local = self._plugins.get(counts.plugin)
            rows.append(
                WebhookStatus(
                    path=counts.path,
                    plugin=counts.plugin,
                    timeout_seconds=counts.timeout,
                    per_second=per_second(f"webhook/{counts.path}", counts.total),
                    total=counts.total,
                    errors=counts.errors,
                    denied=counts.denied,
                    in_flight=counts.in_flight,
                    overdue=local.pool.overdue(counts.path) if local is not None else 0,
                    p50=counts.quantile(0.5),
                    p99=counts.quantile(0.99),
                )
            )
        return rows

    def routes(self) -> tuple[WebhookRoute, ...]:
        """Return what the process of an isolated plugin tells its host."""
        entries = {path: entry for entries in self.entries.values() for path, entry in entries.items()}
        return tuple(WebhookRoute(path, at.timeout, entries[path]) for path, (at, _) in self._routes.items())

    def totals(self) -> dict[str, float]:
        """Return the numbers of answers, for their rates."""
        return {f"webhook/{counts.path}": float(counts.total) for counts in self._metrics.all()}

    def collect(self) -> Iterator[Metric]:
        """Return the current metrics; called by prometheus-client at each scrape."""
        yield from self._metrics.collect()
        if self._certificate is not None:
            yield from self._certificate.collect()

    def stop(self) -> None:
        """Stop the listener."""
        if self._certificate is not None:
            self._certificate.stop()
        if self._server is not None:
            self._server.stop(_TIMEOUT)
        self._loop.stop(_TIMEOUT)


def _files(directory: str) -> KeyPairs:
    folder = Path(directory).expanduser()
    return FilePairs(folder / "tls.crt", folder / "tls.key")


def _entries(context: PluginContext) -> dict[str, dict[str, Any]]:
    def plural(api_version: str, kind: str) -> str | None:
        resource = context.services.client.resources.known(api_version, kind)
        return resource.plural if resource is not None else None

    entries = {webhook.path: entry_of(webhook, plural) for webhook in context.webhooks}
    return entries | {converters.path: {} for converters in context.conversions}
