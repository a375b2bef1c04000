"""HTTP servers, each on its own thread and event loop, so that no reconciler can block them."""

from __future__ import annotations

import errno
import logging
import os
import socket
import struct
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctrlhost.errors import ConfigError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

log = logging.getLogger("ctrlhost.server")

_BACKLOG = 128
_UNIX = "unix:"
_START_TIMEOUT = 10.0
_CREDENTIALS = struct.Struct("iII")


def parse_address(address: str, setting: str) -> tuple[str, int]:
    """Parse `HOST:PORT`, `[IPv6]:PORT`, or `:PORT` for all interfaces; ConfigError names `setting`."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdecimal() or int(port) > 65535 or (":" in host and host[0] != "["):
        raise ConfigError(f"{setting}: invalid address `{address}`", hint="write HOST:PORT, for example 127.0.0.1:8484")
    return host.strip("[]"), int(port)


class HttpServer:
    """Serves one ASGI app at one address."""

    def __init__(self, address: str, app: ASGIApp, name: str = "http", setting: str = "host.listen") -> None:
        """Bind at once, so that a port in use is an early ConfigError, before anything else starts."""
        self.name = name
        self._app = app
        if address.startswith(_UNIX):
            self._socket = _listen_at(address.removeprefix(_UNIX))
        else:
            self._socket = _listen(*parse_address(address, setting), setting)
        self._server: Any = None
        self._thread: threading.Thread | None = None
        self._started = threading.Event()

    @property
    def address(self) -> str:
        """The address as `HOST:PORT`, with the actual port, or `unix:PATH`."""
        if self._socket.family == socket.AF_UNIX:
            return f"{_UNIX}{self._socket.getsockname()}"
        host, port, *_ = self._socket.getsockname()
        return _shown(host, port)

    def start(self) -> None:
        """Start the thread, and wait until it answers requests."""
        import uvicorn

        config = uvicorn.Config(
            self._app,
            log_config=None,
            access_log=False,
            loop="asyncio",
            ws="none",
            lifespan="auto",
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        started = self._started

        class Server(uvicorn.Server):
            async def startup(self, sockets: list[socket.socket] | None = None) -> None:
                try:
                    await super().startup(sockets)
                finally:
                    started.set()

        self._server = Server(config)
        self._thread = threading.Thread(target=self._run, name=f"{self.name} server", daemon=True)
        self._thread.start()
        self._started.wait(_START_TIMEOUT)

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._socket])
        except BaseException as error:
            log.error("server %s at %s failed: %s", self.name, self.address, error, exc_info=error)
            raise
        finally:
            self._started.set()

    def stop(self, timeout: float = 2.0) -> bool:
        """Finish requests in progress and stop listening; False if that took longer than `timeout` seconds."""
        if self._server is not None:
            self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(timeout)
        self._socket.close()
        return self._thread is None or not self._thread.is_alive()


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _listen_at(path: str) -> socket.socket:
    """Listen on a Unix socket that only this user can use."""
    listening = _PrivateSocket(socket.AF_UNIX)
    try:
        listening.bind(path)
        # Nobody connects before `listen`.
        Path(path).chmod(0o600)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise ConfigError(f"cannot listen on {path}: {error.strerror or error}") from None
    listening.setblocking(False)
    return listening


class _PrivateSocket(socket.socket):
    """A Unix socket that accepts connections of this user only, whoever can access its path."""

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection; ConnectionAbortedError, which servers ignore, after closing that of another user."""
        connection, address = super().accept()
        if (user := _peer(connection)) != os.geteuid():
            connection.close()
            raise ConnectionAbortedError(f"refused a connection of the user {user}")
        return connection, address


def _peer(connection: socket.socket) -> int:
    """Return the user at the other end of a connection to a Unix socket; here, where the system does not say."""
    if not hasattr(socket, "SO_PEERCRED"):
        return os.geteuid()
    # Linux's `struct ucred`: process, user and group.
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(credentials)[1])


def _listen(host: str, port: int, setting: str) -> socket.socket:
    problem: OSError | None = None
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ConfigError(f"{setting}: invalid host `{host}`: {error.strerror}") from None
    for family, kind, protocol, _, address in found:
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(_BACKLOG)
        except OSError as error:
            listening.close()
            problem = error
        else:
            listening.setblocking(False)
            return listening
    shown = _shown(host, port)
    if problem is not None and problem.errno == errno.EADDRINUSE:
        raise ConfigError(
            f"{setting}: port {port} is in use by another process ({shown})",
            hint="choose another port, or port 0 for a free one",
        )
    raise ConfigError(f"{setting}: cannot listen at {shown}: {problem.strerror if problem else 'no address'}")
