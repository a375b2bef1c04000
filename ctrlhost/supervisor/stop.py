"""Stop all plugins of a host."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from ctrlhost.controller.context import bound

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctrlhost.supervisor.runtime import PluginRuntime

#: Seconds beyond the deadline until a plugin that does not stop is left behind.
_GRACE = 0.5


def stop_all(plugins: Iterable[PluginRuntime], deadline: float) -> list[str]:
    """Stop plugins at once until `deadline` (time.monotonic); return those whose work has all ended in time."""
    stops = [_Stop(plugin, deadline) for plugin in plugins]
    return [stop.plugin.name for stop in stops if stop.wait()]


class _Stop:
    """Stops one plugin on a thread of its own, so that one that hangs does not delay the others."""

    def __init__(self, plugin: PluginRuntime, deadline: float) -> None:
        """Begin; `deadline` in seconds of `time.monotonic`."""
        self.plugin = plugin
        self._deadline = deadline
        self._drained = False
        self._thread = threading.Thread(target=self._run, name=f"{plugin.name}/stop", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with bound(plugin=self.plugin.name):
            self._drained = self.plugin.stop(self._deadline)

    def wait(self) -> bool:
        """Return whether all work of the plugin ended in time."""
        self._thread.join(max(0.0, self._deadline - time.monotonic()) + _GRACE)
        return self._drained
