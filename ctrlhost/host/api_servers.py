"""Whether the API servers of a host answer, for probes and metrics."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ctrlhost.health import Check
from ctrlhost.transport.reachability import Reachability

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client.core import Metric

    from ctrlhost.client import Client


class ApiServers:
    """The API servers of one host, by their addresses. All methods may be called from any thread."""

    def __init__(self) -> None:
        """Start without any."""
        self._lock = threading.Lock()
        self._known: dict[str, Reachability] = {}

    def watch(self, client: Client, on_return: Callable[[], None] = lambda: None) -> None:
        """Watch the server of a client, once for each address; the first one is the host's own.

        `on_return` is called whenever the server is reachable again. Does nothing for a transport that cannot probe.
        """
        transport = client.transport
        if not transport.host:
            return
        with self._lock:
            if transport.host in self._known:
                return
            reachability = Reachability(transport, on_return=on_return)
            self._known = {**self._known, transport.host: reachability}
        reachability.start()

    @property
    def own(self) -> Reachability | None:
        """The host's own API server; None before it is known, and if it cannot be probed."""
        return next(iter(self._known.values()), None)

    def checks(self) -> list[Check]:
        """Return a line for each server. Only the host's own decides: other plugins do not need the others."""
        lines = [
            Check(f"apiserver/{server.host}", passed=server.up, detail=server.reason, decides=False)
            for server in list(self._known.values())[1:]
        ]
        own = self.own
        return lines if own is None else [Check("apiserver", passed=own.up, detail=own.reason), *lines]

    def collect(self) -> Iterator[Metric]:
        """Return the metric."""
        from prometheus_client.core import GaugeMetricFamily

        up = GaugeMetricFamily("ctrlhost_apiserver_up", "1 while the API server answers, 0 otherwise.", labels=["host"])
        for host, server in self._known.items():
            up.add_metric([host], float(server.up))
        yield up

    def stop(self) -> None:
        """End the probes."""
        for server in self._known.values():
            server.stop()
