"""The exposition of `/metrics`: the host's own metrics and those of its plugins.

Each host has its own registry, and each of its plugins another. Nothing is counted here: a scrape reads the counts of
the core, the informers, the client and the controllers.
"""

from __future__ import annotations

import platform
from collections import Counter
from typing import TYPE_CHECKING, Protocol

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from ctrlhost import __version__
from ctrlhost._core import build_info
from ctrlhost.entries import REASONS
from ctrlhost.host import logs
from ctrlhost.host.log_handler import HOST
from ctrlhost.host.log_sampling import REASONS as LEFT_OUT
from ctrlhost.plugin.metrics import REASONS as MISSING
from ctrlhost.plugin.metrics import Family

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ctrlhost.plugin.metrics import Series
    from ctrlhost.supervisor.runtime import PluginRuntime

PLUGIN_STATES = (
    "disabled", "starting", "syncing", "waiting", "running", "failing", "failed", "stopping", "stopped"
)  # fmt: skip


class Collected(Protocol):
    """Metrics that were collected before, from a plugin of this process or from the process of an isolated one."""

    plugin: str

    @property
    def families(self) -> Sequence[Family]:
        """What was collected last; empty before."""

    @property
    def errors(self) -> Mapping[str, float]:
        """What was left out or came too late, by reason."""

    def age(self) -> float:
        """Return the age of `families` in seconds: 0 if they are current."""

    def late(self) -> None:
        """Count a scrape whose answer has old values, if it has."""

    def skip(self, reason: str, what: str) -> None:
        """Count something that was left out for `reason`, and log `what` the first time."""


class HostMetrics:
    """The metrics of one host."""

    def __init__(self, child: str = "") -> None:
        """Start with the metrics of the process, unless that is the one of the isolated plugin `child`."""
        self.registry = CollectorRegistry(auto_describe=False)
        #: The isolated plugin whose process this is; empty in a host.
        self.child = child
        if not child:
            ProcessCollector(registry=self.registry)
            PlatformCollector(registry=self.registry)
            GCCollector(registry=self.registry)

    def register(self, collector: Collector) -> None:
        """Add a collector of the host."""
        self.registry.register(collector)

    def register_own(self, collector: Collector) -> None:
        """Add a collector about what each process has for itself, such as informers.

        Its series have a label `child` in the process of an isolated plugin: another process has the same ones.
        """
        self.register(_OfChild(collector, self.child) if self.child else collector)

    def exposition(self, plugins: Sequence[Collected], accept: str = "") -> tuple[bytes, str]:
        """Return all metrics in the format that the `Accept` header asks for, and the content type.

        Those of plugins are as they were collected last. A metric without series is left out.
        """
        content_type = choose_encoder(accept)[1]
        own = [Family(metric) for metric in (*self.registry.collect(), *about_collections(plugins))]
        families = _Families()
        for family in own:
            families.add(family, None)
        for plugin in plugins:
            for family in plugin.families:
                families.add(family, plugin)
        end = b"# EOF\n" if "openmetrics" in content_type else b""
        return b"".join([*(family.text(accept) for family in families if family.series), end]), content_type


class _Families:
    """The metrics of several sources, each once, with each series once.

    Scrapers reject an exposition in which a name or a series occurs twice, so one plugin's mistake would lose all
    metrics. The first one counts.
    """

    def __init__(self) -> None:
        self._by_name: dict[str, list[Family]] = {}
        #: The metric that a name of series belongs to.
        self._owners: dict[str, str] = {}

    def add(self, family: Family, plugin: Collected | None) -> None:
        """Add a metric of a plugin, or of the host."""
        name, known = family.metric.name, self._by_name.get(family.metric.name, [])
        if known and known[0].metric.type != family.metric.type:
            _skip(plugin, f"{name}: it is a {known[0].metric.type} elsewhere, a {family.metric.type} here")
            return
        if any(self._owners.setdefault(series_name, name) != name for series_name in family.names):
            _skip(plugin, f"{name}: another metric has series of these names")
            return
        if any(not other.series.isdisjoint(family.series) for other in known):
            _skip(plugin, f"{name}: another plugin has the same series")
            taken: frozenset[Series] = frozenset().union(*(other.series for other in known))
            family = family.without(taken)
        self._by_name[name] = [*known, family]

    def __iter__(self) -> Iterator[Family]:
        """Return one family for each name."""
        for families in self._by_name.values():
            yield families[0] if len(families) == 1 else families[0].with_all(families[1:])


def _skip(plugin: Collected | None, what: str) -> None:
    if plugin is not None:
        plugin.skip("duplicate", what)


def about_collections(plugins: Iterable[Collected]) -> Iterator[Metric]:
    """Return how old the metrics of plugins are, and what was left out of them."""
    age = GaugeMetricFamily(
        "ctrlhost_metrics_age_seconds", "Age of the plugin's own metrics in this answer", labels=("plugin",)
    )
    errors = CounterMetricFamily(
        "ctrlhost_metrics_collector_errors",
        "Metrics of the plugin that were left out, or too late for a scrape",
        labels=("plugin", "reason"),
    )
    for plugin in plugins:
        age.add_metric((plugin.plugin,), plugin.age())
        counts = plugin.errors
        for reason in MISSING:
            errors.add_metric((plugin.plugin, reason), counts.get(reason, 0))
    yield from (age, errors)


class _OfChild(Collector):
    """The metrics of another collector with the label `child`."""

    def __init__(self, collector: Collector, child: str) -> None:
        self._collector = collector
        self._child = child

    def collect(self) -> Iterator[Metric]:
        for metric in self._collector.collect():
            metric.samples = [
                sample._replace(labels={**sample.labels, "child": self._child}) for sample in metric.samples
            ]
            yield metric


class PluginCollector(Collector):
    """Collects the state and origin of each plugin."""

    def __init__(self, plugins: Iterable[PluginRuntime]) -> None:
        """Read `plugins` when scraped."""
        self._plugins = plugins

    def collect(self) -> Iterator[Metric]:
        """Return the families."""
        build = InfoMetricFamily(
            "ctrlhost_build", "Version, revision, Python, Rust compiler and profile of the compiled core, as labels"
        )
        revision, rustc, profile = build_info()
        labels = {"version": __version__, "revision": revision, "python": platform.python_version()}
        build.add_metric((), {**labels, "rustc": rustc, "core_profile": profile})
        yield build
        state = GaugeMetricFamily(
            "ctrlhost_plugin_state",
            "1 for the current state of the plugin, 0 for the others",
            labels=("plugin", "state"),
        )
        info = GaugeMetricFamily(
            "ctrlhost_plugin_info", "Always 1; `installed` is the distribution", labels=("plugin", "installed")
        )
        for plugin in self._plugins:
            for name in PLUGIN_STATES:
                state.add_metric((plugin.name, name), float(plugin.state == name))
            info.add_metric((plugin.name, plugin.installed), 1)
        restarts = CounterMetricFamily(
            "ctrlhost_plugin_restarts", "Restarts of the plugin by reason", labels=("plugin", "reason")
        )
        degraded = GaugeMetricFamily(
            "ctrlhost_plugin_degraded", "1 while the plugin is degraded for the reason", labels=("plugin", "reason")
        )
        for plugin in self._plugins:
            # A copy: the threads of plugins add to it.
            for reason, count in dict(plugin.restarted).items():
                restarts.add_metric((plugin.name, reason), count)
            for reason in REASONS:
                degraded.add_metric((plugin.name, reason), float(reason in plugin.entries.degraded))
        yield from (state, info, restarts, degraded)


class LogCollector(Collector):
    """Collects what this process has not logged."""

    def __init__(self, plugins: Iterable[PluginRuntime]) -> None:
        """Read `plugins` when scraped."""
        self._plugins = plugins

    def collect(self) -> Iterator[Metric]:
        """Return the family."""
        dropped, counts = (
            logs.dropped(),
            CounterMetricFamily("ctrlhost_log_dropped", "Log lines that were not written", labels=("plugin", "reason")),
        )
        for plugin in (*(plugin.name for plugin in self._plugins), HOST):
            for reason in LEFT_OUT:
                counts.add_metric((plugin, reason), dropped.get((plugin, reason), 0))
        yield counts


class EntryCollector(Collector):
    """Collects how the calls of plugins go that run in this process."""

    def __init__(self, plugins: Iterable[PluginRuntime]) -> None:
        """Read `plugins` when scraped."""
        self._plugins = plugins

    def collect(self) -> Iterator[Metric]:
        """Return the families."""
        overdue = GaugeMetricFamily(
            "ctrlhost_entry_overdue", "Calls of the plugin beyond their deadline now", labels=("plugin", "entry")
        )
        overruns = CounterMetricFamily(
            "ctrlhost_entry_overruns", "Calls of the plugin that passed their deadline", labels=("plugin", "entry")
        )
        stuck = GaugeMetricFamily(
            "ctrlhost_plugin_stuck_threads", "Threads of the plugin that hang beyond a deadline", labels=("plugin",)
        )
        blocked = GaugeMetricFamily(
            "ctrlhost_loop_blocked_seconds",
            "Seconds for which the plugin's event loop has not turned",
            labels=("plugin",),
        )
        for plugin in (plugin for plugin in self._plugins if not plugin.isolated):
            if (context := plugin.context) is not None:
                blocked.add_metric((plugin.name,), context.scope.loop.blocked)
            stuck.add_metric((plugin.name,), sum(entries.stuck() for entries in plugin.all_entries()))
            overdue_now = sum((entries.overdue() for entries in plugin.all_entries()), Counter())
            # A copy: the threads of the plugin add to it.
            for entry, count in sorted(dict(plugin.overruns).items()):
                overdue.add_metric((plugin.name, entry), overdue_now[entry])
                overruns.add_metric((plugin.name, entry), count)
        yield from (stuck, overdue, overruns, blocked)


def of_host(plugins: Sequence[PluginRuntime]) -> HostMetrics:
    """Return what the metrics of a host with these plugins begin with."""
    metrics = HostMetrics()
    for collector in (PluginCollector, EntryCollector, LogCollector):
        metrics.register(collector(plugins))
    return metrics


def of_child(plugin: PluginRuntime) -> HostMetrics:
    """Return what the metrics of the process of an isolated plugin begin with; the host has the plugin's states."""
    metrics = HostMetrics(child=plugin.name)
    metrics.register(EntryCollector([plugin]))
    metrics.register_own(LogCollector([plugin]))
    return metrics
