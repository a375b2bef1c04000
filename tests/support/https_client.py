"""Requests over TLS that verify nothing, so that a test sees which certificate a server shows."""

from __future__ import annotations

import http.client
import ssl
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: str
    headers: http.client.HTTPMessage


def trusting() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class HttpsConnection:
    """A connection that is kept alive."""

    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPSConnection(address, timeout=30, context=trusting())
        self._connection.connect()

    @property
    def certificate(self) -> bytes:
        """What the server shows, DER."""
        socket = self._connection.sock
        assert isinstance(socket, ssl.SSLSocket)
        certificate = socket.getpeercert(binary_form=True)
        assert certificate is not None
        return certificate

    def get(self, path: str = "/metrics", token: str | None = None, method: str = "GET", accept: str = "*/*") -> Answer:
        headers = {"Accept": accept} | ({} if token is None else {"Authorization": f"Bearer {token}"})
        self._connection.request(method, path, headers=headers)
        # `request` would connect again if the server had closed the connection.
        response = self._connection.getresponse()
        return Answer(response.status, response.read().decode(), response.headers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def get(address: str, path: str = "/metrics", token: str | None = None, method: str = "GET") -> Answer:
    """Return the answer to a request on a connection of its own."""
    with HttpsConnection(address) as connection:
        return connection.get(path, token, method)
