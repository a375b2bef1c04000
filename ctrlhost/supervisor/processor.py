"""The processor time that each plugin uses, by the names of its threads: `PLUGIN/…`."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from ctrlhost.supervisor.threads import processor_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from prometheus_client.core import Metric

    from ctrlhost.supervisor.runtime import PluginRuntime

#: What is not the time of a plugin: the host's own threads, and those that plugins have started themselves.
HOST = "_host"


class PluginProcessor:
    """Sums the processor time of threads by plugin, ended ones too. Callable from any thread.

    `look` is called each second: what a thread uses between the last look and its end counts as the host's.
    """

    def __init__(
        self, plugins: Sequence[PluginRuntime], child_seconds: Callable[[str], float] = lambda _plugin: 0.0
    ) -> None:
        """Prepare; `child_seconds` returns the time of the processes of an isolated plugin."""
        self._plugins = plugins
        self._child_seconds = child_seconds
        self._lock = threading.Lock()
        self._alive: dict[threading.Thread, tuple[str, float]] = {}
        self._ended: dict[str, float] = {}
        self._host = 0.0

    def look(self) -> None:
        """Read the time of the threads that run now."""
        with self._lock:
            self._look()

    def _look(self) -> None:
        names = {plugin.name for plugin in self._plugins}
        alive: dict[threading.Thread, tuple[str, float]] = {}
        for thread in threading.enumerate():
            plugin, slash, _ = thread.name.partition("/")
            if not slash or plugin not in names:
                continue
            seconds = processor_seconds(thread)
            if seconds is None:
                seconds = self._alive.get(thread, (plugin, 0.0))[1]
            alive[thread] = (plugin, seconds)
        for thread, (plugin, seconds) in self._alive.items():
            if thread not in alive:
                self._ended[plugin] = self._ended.get(plugin, 0.0) + seconds
        self._alive = alive

    def seconds(self) -> dict[str, float]:
        """Return the seconds by plugin, those of the processes of isolated plugins included, and those of the host."""
        with self._lock:
            self._look()
            spent = {plugin.name: self._ended.get(plugin.name, 0.0) for plugin in self._plugins}
            for plugin, seconds in self._alive.values():
                spent[plugin] += seconds
            # After the threads were read, so that the rest is not negative. It never decreases, as counters do not.
            self._host = max(self._host, time.process_time() - sum(spent.values()))
            for name in spent:
                spent[name] += self._child_seconds(name)
            return {**spent, HOST: self._host}

    def collect(self) -> Iterator[Metric]:
        """Return the family; called by scrapes."""
        from prometheus_client.core import CounterMetricFamily

        family = CounterMetricFamily(
            "ctrlhost_plugin_cpu_seconds",
            "Processor time of the plugin's threads or processes; `_host` is the rest of the host's process",
            labels=("plugin",),
        )
        for plugin, seconds in self.seconds().items():
            family.add_metric((plugin,), seconds)
        yield family
