"""Addresses of HTTP servers, and the sockets that listen there."""

from __future__ import annotations

import contextlib
import errno
import logging
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctrlhost.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

log = logging.getLogger("ctrlhost.server")

UNIX = "unix:"
#: Connections that wait while the process has no free descriptor, or is busy; the kernel may allow fewer.
_BACKLOG = 1024
_LOOPBACKS = ("127.0.0.1", "::1")
_WITHOUT_IPV6 = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT, errno.EINVAL})
#: Attempts to find a port that is free on both loopbacks.
_ATTEMPTS = 20


def parse_address(address: str, setting: str) -> tuple[str, int]:
    """Parse `HOST:PORT`, `[IPv6]:PORT`, or `:PORT` for all interfaces; ConfigError names `setting`."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isascii() or not port.isdecimal() or int(port) > 65535 or (":" in host and host[0] != "["):
        raise ConfigError(f"{setting}: invalid address `{address}`", hint="write HOST:PORT, for example 127.0.0.1:8484")
    return host.strip("[]"), int(port)


def bind(address: str, setting: str) -> list[socket.socket]:
    """Return the sockets that listen at `HOST:PORT` or `unix:PATH`; ConfigError if that cannot be.

    All interfaces are those of IPv6 and IPv4, or of IPv4 alone where there is no IPv6; `localhost` is both loopbacks.
    """
    if address.startswith(UNIX):
        return [_listen_at(address.removeprefix(UNIX))]
    host, port = parse_address(address, setting)
    try:
        if host in ("", "::"):
            return [_on_all_interfaces(host, port)]
        if host.lower() == "localhost":
            return _on_loopbacks(port)
        return [_on_one(host, port, setting)]
    except OSError as error:
        raise _refused(join(host, port), port, setting, error) from None


def address_of(listening: socket.socket) -> str:
    """Return where a socket listens as `HOST:PORT`, with the actual port, or as `unix:PATH`."""
    if listening.family == socket.AF_UNIX:
        return f"{UNIX}{listening.getsockname()}"
    host, port, *_ = listening.getsockname()
    return join(host, port)


def is_loopback(listening: socket.socket) -> bool:
    """Return whether only clients on this machine reach a socket."""
    if listening.family == socket.AF_UNIX:
        return True
    host = str(listening.getsockname()[0])
    return host == "::1" or host.startswith(("127.", "::ffff:127."))


def join(host: str, port: int) -> str:
    """Return host and port as one text."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _refused(where: str, port: int, setting: str, error: OSError) -> ConfigError:
    if error.errno == errno.EADDRINUSE:
        return ConfigError(
            f"{setting}: port {port} is in use by another process ({where})",
            hint="choose another port, or port 0 for a free one",
        )
    return ConfigError(
        f"{setting}: cannot listen at {where}: {error.strerror or error}",
        hint="use an address of this machine, such as 127.0.0.1",
    )


def _listen_at(path: str) -> socket.socket:
    """Listen on a Unix socket that only this user can use."""
    listening = socket.socket(socket.AF_UNIX)
    try:
        listening.bind(path)
        # Nobody connects before `listen`.
        Path(path).chmod(0o600)
        return _ready(listening)
    except OSError as error:
        listening.close()
        raise ConfigError(f"cannot listen on {path}: {error.strerror or error}") from None


def _on_all_interfaces(host: str, port: int) -> socket.socket:
    try:
        listening = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
        with _closed_on_failure(listening):
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            return _listen(listening, ("::", port))
    except OSError as error:
        if error.errno not in _WITHOUT_IPV6:
            raise
        log.info("no IPv6 here (%s): listening on IPv4 alone for %s", error.strerror or error, join(host, port))
    return _listen(socket.socket(socket.AF_INET, socket.SOCK_STREAM), ("0.0.0.0", port))  # noqa: S104 - as asked for


def _on_loopbacks(port: int) -> list[socket.socket]:
    """Listen on both loopbacks at one port; on that of IPv4 alone where there is no IPv6."""
    for attempt in range(_ATTEMPTS):
        first = _listen(socket.socket(socket.AF_INET, socket.SOCK_STREAM), (_LOOPBACKS[0], port))
        with _closed_on_failure(first):
            try:
                second = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
                with _closed_on_failure(second):
                    second.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                    return [first, _listen(second, (_LOOPBACKS[1], first.getsockname()[1]))]
            except OSError as error:
                if error.errno in _WITHOUT_IPV6:
                    return [first]
                if port or error.errno != errno.EADDRINUSE or attempt == _ATTEMPTS - 1:
                    raise
        # Another process has this port on the other loopback.
        first.close()
    raise AssertionError("the last attempt returns or raises")


def _on_one(host: str, port: int, setting: str) -> socket.socket:
    problem = OSError("no address")
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise ConfigError(f"{setting}: invalid host `{host}`: {error.strerror}") from None
    for family, kind, protocol, _, address in infos:
        try:
            return _listen(socket.socket(family, kind, protocol), address)
        except OSError as error:
            problem = error
    raise problem


def _listen(listening: socket.socket, address: tuple[Any, ...]) -> socket.socket:
    with _closed_on_failure(listening):
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        return _ready(listening)


def _ready(listening: socket.socket) -> socket.socket:
    listening.listen(_BACKLOG)
    listening.setblocking(False)
    return listening


@contextlib.contextmanager
def _closed_on_failure(held: socket.socket) -> Iterator[None]:
    try:
        yield
    except BaseException:
        held.close()
        raise
