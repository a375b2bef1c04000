"""The HTTP servers of a host: its own, and those of its plugins."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ctrlhost.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ctrlhost.host.inspection import Inspection
    from ctrlhost.server.listener import HttpServer
    from ctrlhost.supervisor.runtime import PluginRuntime

log = logging.getLogger("ctrlhost.host")

#: Seconds that requests in progress may take at the shutdown.
_TIMEOUT = 2.0


class HostServers:
    """All servers of one host; imports the modules that they need on first use."""

    def __init__(self) -> None:
        """Start without servers."""
        self._own: HttpServer | None = None
        self._of_plugins: list[HttpServer] = []

    @property
    def address(self) -> str | None:
        """The address of the host's own server; None without one."""
        return self._own.address if self._own else None

    def listen(self, address: str, inspection: Inspection) -> None:
        """Bind the address of the host's own server, which answers from `start` on; ConfigError if it is in use."""
        from ctrlhost.server.app import host_app
        from ctrlhost.server.listener import HttpServer

        self._own = HttpServer(address, host_app(inspection), "host")

    def start(self, plugins: Iterable[PluginRuntime]) -> None:
        """Start all servers; a plugin whose address cannot be bound fails."""
        for runtime in plugins:
            for address, app in runtime.context.listeners if runtime.context else ():
                from ctrlhost.server.listener import HttpServer

                try:
                    server = HttpServer(address, app, runtime.name, f"listener of {runtime.name}")
                except ConfigError as error:
                    runtime.fail(f"{error}")
                    break
                self._of_plugins.append(server)
                server.start()
                log.info("plugin %s listens on http://%s", runtime.name, server.address)
        if self._own is not None:
            self._own.start()
            log.info("listening on http://%s", self._own.address)

    def stop(self) -> None:
        """Stop all servers, the host's own last."""
        for server in self._of_plugins:
            server.stop(_TIMEOUT)
        if self._own is not None:
            self._own.stop(_TIMEOUT)
