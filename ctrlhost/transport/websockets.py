"""WebSockets to the API server, by websocket-client, which is imported with this module.

Only connections to pods need them. They have sockets and a TLS context of their own, with the address, trust and
certificates of the connection.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from websocket import WebSocket, WebSocketBadStatusException, WebSocketException, create_connection

from ctrlhost.errors import TransportError
from ctrlhost.transport.interface import Response
from ctrlhost.transport.responses import error_from_response
from ctrlhost.transport.tls_context import tls_context

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctrlhost.kubeconfig.connection import Connection


def connect(
    connection: Connection,
    target: str,
    headers: Sequence[tuple[str, str]],
    protocols: Sequence[str],
    timeout: float,
    what: str,
) -> WebSocket:
    """Return a WebSocket to the path and query `target`, which speaks one of the protocols; `timeout` is in seconds.

    ApiError if the server refuses it, TransportError if it does not answer, ConfigError for unusable certificates.
    """
    parts = urlsplit(connection.url)
    tls = {"context": tls_context(connection), "server_hostname": connection.configuration.tls_server_name or None}
    try:
        return create_connection(
            f"{'wss' if parts.scheme == 'https' else 'ws'}://{parts.netloc}{target}",
            timeout=timeout,
            header=[f"{name}: {value}" for name, value in headers],
            subprotocols=list(protocols),
            suppress_origin=True,
            redirect_limit=0,
            sslopt=tls,
            **_way(connection, timeout, what),
        )
    except WebSocketBadStatusException as error:
        # Its text has the whole response; the names of its headers are in lower case.
        response = Response(error.status_code, error.resp_headers or {}, error.resp_body or b"")
        raise error_from_response(response, what) from None
    except (WebSocketException, OSError) as error:
        raise TransportError(f"{what}: cannot open a WebSocket: {error}") from error


def _way(connection: Connection, timeout: float, what: str) -> dict[str, Any]:
    """Return the options for the way to the server; the environment's proxy counts only if the connection has it."""
    if connection.unix_socket:
        unix = socket.socket(socket.AF_UNIX)
        unix.settimeout(timeout)
        unix.connect(connection.unix_socket)
        return {"socket": unix}
    proxy = connection.proxy()
    if proxy is None:
        return {"http_no_proxy": ["*"]}
    if proxy.scheme != "http" or proxy.headers:
        raise TransportError(
            f"{what}: a WebSocket cannot pass {proxy!r}",
            sent=False,
            hint="connections to pods need a proxy with http:// and without headers of its own",
        )
    # An empty list would be that of the environment.
    way = {"http_proxy_host": proxy.host, "http_proxy_port": proxy.port, "http_no_proxy": ["none.invalid"]}
    return {**way, "http_proxy_auth": proxy.user}
