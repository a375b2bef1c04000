"""The HTTP servers of a host: its own, and those of its plugins."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ctrlhost.controller.event_loop import PluginLoop

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp

    from ctrlhost.host.inspection import Inspection
    from ctrlhost.plugin.context import PluginContext
    from ctrlhost.server.listener import HttpServer

log = logging.getLogger("ctrlhost.host")

#: Seconds that requests in progress may take at the shutdown.
_TIMEOUT = 2.0


class HostServers:
    """All servers of one host; imports the modules that they need on first use."""

    def __init__(self) -> None:
        """Start without servers."""
        self._own: HttpServer | None = None
        #: Answers what is neither a probe nor a page.
        self._status = PluginLoop("host")

    @property
    def address(self) -> str | None:
        """The address of the host's own server; None without one."""
        return self._own.address if self._own else None

    def serve(self, address: str, inspection: Inspection) -> None:
        """Bind the address of the host's own server and answer requests; ConfigError if it is in use."""
        from ctrlhost.server.app import host_app

        self._serve(address, host_app(inspection, self._status))

    def serve_host(self, socket: str, inspection: Inspection) -> None:
        """Answer at this Unix socket, in the process of an isolated plugin, what its host shows of it."""
        from ctrlhost.server.app import PATIENCE, host_app
        from ctrlhost.server.proxy import behind_proxy

        # The host waits for this process as long as for its own plugins.
        self._serve(f"unix:{socket}", behind_proxy(host_app(inspection, self._status, PATIENCE / 2)))

    def _serve(self, address: str, app: ASGIApp) -> None:
        from ctrlhost.server.listener import HttpServer

        self._own = HttpServer(address, app, "host")
        self._own.start()

    def open(self, context: PluginContext) -> Callable[[], None]:
        """Serve the listeners of a plugin; return a function that ends them. ConfigError for an address in use."""
        from ctrlhost.host.pages import on_loop
        from ctrlhost.server.listener import HttpServer

        servers: list[HttpServer] = []

        def close() -> None:
            for server in servers:
                server.stop(_TIMEOUT)

        try:
            for address, listener in context.listeners:
                app = on_loop(context, "listener", address, listener)
                servers.append(HttpServer(address, app, context.name, f"listener of {context.name}"))
        except BaseException:
            close()
            raise
        for server in servers:
            server.start()
            log.info("plugin %s listens on http://%s", context.name, server.address)
        return close

    def stop(self) -> None:
        """Stop the host's own server; those of plugins end with them."""
        if self._own is not None:
            self._own.stop(_TIMEOUT)
            self._status.stop(_TIMEOUT)
