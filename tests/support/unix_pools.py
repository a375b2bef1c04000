"""Connections of urllib3 to a server on a Unix socket."""

from __future__ import annotations

import socket
from typing import Any

from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError


class UnixConnection(HTTPConnection):
    """A connection to a Unix socket; host and port are only names."""

    def __init__(self, *args: Any, unix_socket: str, **options: Any) -> None:
        """Connect to the path `unix_socket`, later."""
        super().__init__(*args, **options)
        self._unix_socket = unix_socket

    def _new_conn(self) -> socket.socket:
        timeout = self.timeout
        sock = socket.socket(socket.AF_UNIX)
        try:
            # urllib3 resolves its default to a number or None before it connects.
            sock.settimeout(timeout if isinstance(timeout, int | float) else None)
            sock.connect(self._unix_socket)
        except TimeoutError as error:
            sock.close()
            raise ConnectTimeoutError(self, f"{self._unix_socket}: connecting timed out") from error
        except OSError as error:
            sock.close()
            raise NewConnectionError(self, f"cannot connect to {self._unix_socket}: {error}") from error
        return sock


class UnixConnectionPool(HTTPConnectionPool):
    """Keeps connections to one Unix socket."""

    ConnectionCls = UnixConnection
