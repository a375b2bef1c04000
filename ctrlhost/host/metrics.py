"""The exposition of `/metrics`: the host's own metrics and those of its plugins.

Each host has its own registry, and each of its plugins another. Nothing is counted here: a scrape reads the counts of
the core, the informers, the client and the controllers.
"""

from __future__ import annotations

import logging
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from ctrlhost import __version__
from ctrlhost.host import logs
from ctrlhost.host.log_handler import HOST
from ctrlhost.host.log_sampling import REASONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ctrlhost.supervisor.runtime import PluginRuntime

log = logging.getLogger("ctrlhost.metrics")

#: The reasons for which a plugin may be degraded.
DEGRADED = ("errors", "waiting", "slow", "hot-loop", "blocked-loop", "backlog", "over-budget", "paused")
PLUGIN_STATES = (
    "disabled", "starting", "syncing", "waiting", "running", "failing", "failed", "stopping", "stopped"
)  # fmt: skip


class HostMetrics:
    """The metrics of one host."""

    def __init__(self) -> None:
        """Start with the metrics of the process."""
        self.registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._warned: set[tuple[str, str]] = set()

    def register(self, collector: Collector) -> None:
        """Add a collector of the host."""
        self.registry.register(collector)

    def exposition(self, plugins: Mapping[str, CollectorRegistry], accept: str = "") -> tuple[bytes, str]:
        """Return all metrics in the format that the `Accept` header asks for, and the content type."""
        encode, content_type = choose_encoder(accept)
        families: Any = SimpleNamespace(collect=lambda: self._merged(plugins))
        return encode(families), content_type

    def _merged(self, plugins: Mapping[str, CollectorRegistry]) -> Iterable[Metric]:
        # Scrapers reject an exposition in which a name or a series occurs twice, so one plugin's mistake would lose
        # all metrics.
        merged: dict[str, Metric] = {}
        series: set[tuple[str, frozenset[tuple[str, str]]]] = set()
        for source, registry in [("", self.registry), *plugins.items()]:
            for family in self._collected(source, registry):
                known = merged.get(family.name)
                if known is not None and known.type != family.type:
                    self._warn(source, family.name, f"it is a {known.type} elsewhere, a {family.type} here")
                    continue
                if known is None:
                    known = Metric(family.name, family.documentation, family.type, family.unit)
                    merged[family.name] = known
                for sample in family.samples:
                    key = (sample.name, frozenset(sample.labels.items()))
                    if key in series:
                        self._warn(source, family.name, "another plugin has the same series")
                        continue
                    series.add(key)
                    known.samples.append(sample)
        return merged.values()

    def _collected(self, source: str, registry: CollectorRegistry) -> list[Metric]:
        try:
            return list(registry.collect())
        except Exception as error:  # noqa: BLE001 - one plugin's collector must not lose all metrics
            self._warn(source, "", f"{type(error).__name__}: {error}")
            return []

    def _warn(self, source: str, name: str, problem: str) -> None:
        if (source, name) not in self._warned:
            self._warned.add((source, name))
            log.warning("skipped metrics %s of plugin %s: %s", name, source or "(host)", problem)


class PluginCollector(Collector):
    """Collects the state and origin of each plugin."""

    def __init__(self, plugins: Iterable[PluginRuntime]) -> None:
        """Read `plugins` when scraped."""
        self._plugins = plugins

    def collect(self) -> Iterator[Metric]:
        """Return the families."""
        build = InfoMetricFamily("ctrlhost_build", "The running version")
        build.add_metric((), {"version": __version__})
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
            for one in PLUGIN_STATES:
                state.add_metric((plugin.name, one), float(plugin.state == one))
            info.add_metric((plugin.name, plugin.installed), 1)
        yield state
        yield info
        yield from self._collect_entries()
        yield from self._collect_log()

    def _collect_log(self) -> Iterator[Metric]:
        dropped, counts = (
            logs.dropped(),
            CounterMetricFamily("ctrlhost_log_dropped", "Log lines that were not written", labels=("plugin", "reason")),
        )
        for plugin in (*(one.name for one in self._plugins), HOST):
            for reason in REASONS:
                counts.add_metric((plugin, reason), dropped.get((plugin, reason), 0))
        yield counts

    def _collect_entries(self) -> Iterator[Metric]:
        restarts = CounterMetricFamily(
            "ctrlhost_plugin_restarts", "Restarts of the plugin by reason", labels=("plugin", "reason")
        )
        degraded = GaugeMetricFamily(
            "ctrlhost_plugin_degraded", "1 while the plugin is degraded for the reason", labels=("plugin", "reason")
        )
        overdue = GaugeMetricFamily(
            "ctrlhost_entry_overdue", "Calls of the plugin beyond their deadline now", labels=("plugin", "entry")
        )
        overruns = CounterMetricFamily(
            "ctrlhost_entry_overruns", "Calls of the plugin that passed their deadline", labels=("plugin", "entry")
        )
        stuck = GaugeMetricFamily(
            "ctrlhost_plugin_stuck_threads", "Threads of the plugin that hang beyond a deadline", labels=("plugin",)
        )
        for plugin in self._plugins:
            stuck.add_metric((plugin.name,), sum(one.stuck() for one in plugin.all_entries()))
            # Copies: the threads of plugins add to both.
            for reason, count in dict(plugin.restarted).items():
                restarts.add_metric((plugin.name, reason), count)
            for reason in DEGRADED:
                degraded.add_metric((plugin.name, reason), float(reason in plugin.entries.degraded))
            overdue_now = sum((one.overdue() for one in plugin.all_entries()), Counter())
            for entry, count in sorted(dict(plugin.overruns).items()):
                overdue.add_metric((plugin.name, entry), overdue_now[entry])
                overruns.add_metric((plugin.name, entry), count)
        yield from (restarts, degraded, stuck, overdue, overruns)
