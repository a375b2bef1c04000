"""The processes of the isolated plugins of one host."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from ctrlhost.errors import ConfigError
from ctrlhost.host.log_levels import levels
from ctrlhost.supervisor.child import ChildAttempt
from ctrlhost.supervisor.fork_server import ForkServer
from ctrlhost.supervisor.isolation import Isolation
from ctrlhost.supervisor.plugin_file import PluginSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from prometheus_client.core import Metric
    from starlette.types import ASGIApp

    from ctrlhost.client import Client
    from ctrlhost.config.load import Configuration
    from ctrlhost.config.settings import HostSettings
    from ctrlhost.host.child_view import ChildView
    from ctrlhost.host.webhooks.serving import Webhooks
    from ctrlhost.informers import InformerFactory
    from ctrlhost.supervisor.channel import WebhookRoute
    from ctrlhost.supervisor.run_directory import RunDirectory
    from ctrlhost.supervisor.runtime import PluginRuntime

#: States of a plugin without a process that is shown.
_DOWN = frozenset({"failing", "failed"})
#: Seconds beyond a page's deadline, at which the process answers 504 itself, and counts that.
_BEHIND = 0.5
#: Seconds before the end of the API server's patience at which the host answers for a process that hangs.
_AHEAD = 0.25


class Children(Collector):
    """What a host has for its isolated plugins: their directories and the feed. Callable from any thread."""

    def __init__(
        self,
        plugins: Sequence[PluginRuntime],
        settings: HostSettings,
        configuration: Configuration,
        directory: RunDirectory,
        sources: Mapping[str, PluginSource],
        names: tuple[str, ...],
    ) -> None:
        """Prepare processes of their own for these plugins, whose sockets are in `directory`.

        `sources` are what plugins are loaded from that are not installed, by name; `names` are those of all enabled
        plugins of the host.
        """
        self._plugins = plugins
        # One plugin that never fails needs no server.
        forks = ForkServer(spared=1 if len(plugins) == 1 else 0)
        self._isolation = Isolation(
            settings, configuration, directory.for_plugin, forks, names, levels.changes, sources=sources
        )
        #: What is shown of the plugins' present processes.
        self._views: dict[str, ChildView] = {}
        for plugin in plugins:
            plugin.new_attempt = partial(ChildAttempt, isolation=self._isolation)

    def view(self, plugin: PluginRuntime) -> ChildView | None:
        """Return what is shown of an isolated plugin's process; None unless the plugin is set up there."""
        from ctrlhost.host.child_view import ChildView

        attempt = plugin.attempt
        if not isinstance(attempt, ChildAttempt) or not attempt.set_up.is_set() or plugin.state in _DOWN:
            return None
        known = self._views.get(plugin.name)
        if known is None or known.attempt is not attempt:
            known = self._views[plugin.name] = ChildView(plugin.name, attempt)
        return known

    def pages(self) -> dict[str, dict[str, ASGIApp]]:
        """Return the pages of the plugins, by plugin and path; they answer from the processes."""
        return {
            plugin.name: dict.fromkeys(paths, _page_of(plugin, _page_seconds(plugin)))
            for plugin in self._plugins
            if (paths := self._isolation.pages.get(plugin.name))
        }

    def proxy_to(self, plugin: str, seconds: float) -> ASGIApp | None:
        """Return an application that answers from the process of an isolated plugin; None for other plugins.

        It answers 504 if the process has not begun to answer after so many seconds.
        """
        runtime = next((candidate for candidate in self._plugins if candidate.name == plugin), None)
        return _page_of(runtime, seconds) if runtime is not None else None

    def serve_webhooks(self, webhooks: Callable[[], Webhooks]) -> None:
        """Answer for the webhooks of the plugins among those of the host."""

        def follow(plugin: str, routes: tuple[WebhookRoute, ...]) -> None:
            runtime = next(candidate for candidate in self._plugins if candidate.name == plugin)
            # Between the deadline of the process and that of the API server.
            webhooks().follow(plugin, routes, lambda timeout: _page_of(runtime, timeout - _AHEAD))

        self._isolation.has_webhooks = follow

    def elects(self, plugin: str) -> bool:
        """Return whether the process of an isolated plugin stands for the plugin's own lease."""
        return self._isolation.elects(plugin) and any(candidate.name == plugin for candidate in self._plugins)

    def serve(self, factory: InformerFactory, client: Client, sandbox: Path | None) -> None:
        """Serve the host's informers to the processes, which use the kubeconfig of the sandbox, if there is one."""
        from ctrlhost.supervisor.cache_server import CacheServer

        self._isolation.kubeconfig = str(sandbox) if sandbox is not None else None

        self._isolation.feed = CacheServer(factory, client.resources)

    def reload(self, settings: HostSettings, configuration: Configuration) -> None:
        """Start later processes with these settings."""
        self._isolation.settings, self._isolation.configuration = settings, configuration

    def cpu_seconds(self, plugin: str) -> float:
        """Return the processor time of the processes of a plugin so far; 0 for one that is not isolated."""
        return self._isolation.cpu_seconds(plugin)

    def collect(self) -> Iterator[Metric]:
        """Return the metrics of the processes."""
        rss = GaugeMetricFamily(
            "ctrlhost_child_rss_bytes", "Resident memory of the process of an isolated plugin", labels=("plugin",)
        )
        for plugin in self._plugins:
            attempt = plugin.attempt
            rss.add_metric((plugin.name,), attempt.rss if attempt is not None else 0)
        yield rss
        if self._isolation.feed is not None:
            yield from self._isolation.feed.collect()

    def stop(self) -> None:
        """End the feed, and the process that forks those of plugins. May be repeated."""
        self._isolation.forks.close()
        if self._isolation.feed is not None:
            self._isolation.feed.stop()


def _page_seconds(plugin: PluginRuntime) -> float | None:
    deadline = plugin.entries.deadline("page")
    return deadline + _BEHIND if deadline else None


def _page_of(plugin: PluginRuntime, seconds: float | None) -> ASGIApp:
    from ctrlhost.server.proxy import proxied

    def socket() -> Path | None:
        attempt = plugin.attempt
        return attempt.socket if attempt is not None else None

    def retry_after() -> float | None:
        # A new process is on its way in any other state.
        return None if plugin.state == "failed" else plugin.restarts_in() or 0.0

    return proxied(socket, seconds, retry_after)


def make_children(
    plugins: Sequence[PluginRuntime],
    settings: HostSettings,
    configuration: Configuration,
    given: Mapping[str, object],
    own_client: bool,
    directory: Callable[[], RunDirectory],
) -> Children | None:
    """Return what a host has for its plugins with processes of their own; None if there are none.

    `given` are the plugins that were passed as objects, by name; `own_client` is whether the host has made its client;
    `directory` returns the one for their sockets. ConfigError for a plugin that cannot have a process, or without a
    directory.
    """
    sources = {name: source for name, source in given.items() if isinstance(source, PluginSource)}
    isolated_plugins = [plugin for plugin in plugins if configuration.supervision(plugin.name).process == "own"]
    for plugin in isolated_plugins:
        where = f"supervision.{plugin.name}.process"
        if plugin.name in given and plugin.name not in sources:
            raise ConfigError(
                f"{where}: the plugin was passed to the host as an object, so another process cannot load it",
                hint="install it with an entry point, and pass its name",
            )
        if not own_client:
            raise ConfigError(
                f"{where}: the client was passed to the host as an object, so another process cannot have it",
                hint="pass the setting `kubeconfig` instead",
            )
    isolated = [plugin for plugin in isolated_plugins if configuration.supervision(plugin.name).enabled]
    names = tuple(plugin.name for plugin in plugins if configuration.supervision(plugin.name).enabled)
    return Children(isolated, settings, configuration, directory(), sources, names) if isolated else None
