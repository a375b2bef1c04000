"""Convert the errors of urllib3, TLS and sockets to TransportError."""

from __future__ import annotations

import ssl
from contextlib import contextmanager
from typing import TYPE_CHECKING

from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    MaxRetryError,
    NewConnectionError,
    ProxyError,
    ReadTimeoutError,
    SSLError,
)

from ctrlhost.errors import TransportError

if TYPE_CHECKING:
    from collections.abc import Iterator

_CA_HINT = "set `certificate-authority` in the kubeconfig to the CA of the server"


@contextmanager
def as_transport_errors(what: str) -> Iterator[None]:
    """Convert every failure of the request `what` in the block to a TransportError."""
    try:
        yield
    except (HTTPError, OSError, ValueError, AttributeError) as error:
        reason = error.reason if isinstance(error, MaxRetryError) else None
        raise _transport_error(what, reason if isinstance(reason, Exception) else error) from error


def _transport_error(what: str, error: Exception) -> TransportError:
    cause = _root(error)
    if isinstance(error, NewConnectionError | ConnectionRefusedError):
        return TransportError(f"{what}: cannot connect: {cause}", sent=False)
    if isinstance(error, SSLError | ssl.SSLError):
        hint = _CA_HINT if "CERTIFICATE_VERIFY" in str(error) else None
        return TransportError(f"{what}: TLS failed: {cause}", sent=False, hint=hint)
    if isinstance(error, ProxyError):
        return TransportError(f"{what}: the proxy failed: {cause}", sent=False)
    if isinstance(error, ConnectTimeoutError):
        return TransportError(f"{what}: no connection in time", sent=False)
    if isinstance(error, ReadTimeoutError | TimeoutError):
        return TransportError(f"{what}: no response in time")
    return TransportError(f"{what}: {cause}")


def _root(error: BaseException) -> str:
    """Return the message of the root cause: urllib3 repeats the messages of errors that it wraps."""
    while error.__cause__ is not None or (error.args and isinstance(error.args[-1], BaseException)):
        error = error.__cause__ or error.args[-1]
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
