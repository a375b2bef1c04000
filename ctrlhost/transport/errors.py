"""What urllib3, TLS and sockets raise, told as one kind of error in few words."""

from __future__ import annotations

import ssl
from contextlib import contextmanager
from typing import TYPE_CHECKING

import urllib3
from urllib3.exceptions import (
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


@contextmanager
def as_transport_errors(what: str) -> Iterator[None]:
    """Raise TransportError, which begins with `what` was asked, for all that can go wrong on the way."""
    try:
        yield
    except (HTTPError, OSError, ValueError, AttributeError) as error:
        if isinstance(error, MaxRetryError) and isinstance(error.reason, Exception):
            raise _transport_error(what, error.reason) from error
        raise _transport_error(what, error) from error


def _transport_error(what: str, error: Exception) -> TransportError:
    if isinstance(error, NewConnectionError | ConnectionRefusedError):
        return TransportError(f"{what}: can not connect: {_root(error)}", sent=False)
    if isinstance(error, SSLError | ssl.SSLError):
        hint = (
            "the CA of the server goes into `certificate-authority` of the kubeconfig"
            if "CERTIFICATE_VERIFY" in str(error)
            else None
        )
        return TransportError(f"{what}: TLS failed: {_root(error)}", sent=False, hint=hint)
    if isinstance(error, ProxyError):
        return TransportError(f"{what}: the proxy failed: {_root(error)}", sent=False)
    if isinstance(error, urllib3.exceptions.ConnectTimeoutError):
        return TransportError(f"{what}: no connection in time", sent=False)
    if isinstance(error, ReadTimeoutError | TimeoutError):
        return TransportError(f"{what}: no answer in time")
    return TransportError(f"{what}: {_root(error)}")


def _root(error: BaseException) -> str:
    """Say the first cause in few words: urllib3 wraps errors in each other's texts."""
    seen: BaseException = error
    while seen.__cause__ is not None or (seen.args and isinstance(seen.args[-1], BaseException)):
        seen = seen.__cause__ if seen.__cause__ is not None else seen.args[-1]
    return getattr(seen, "strerror", None) or str(seen) or type(seen).__name__
