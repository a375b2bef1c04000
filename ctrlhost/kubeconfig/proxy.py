"""The proxy of a server: its address and credentials, and which servers need none."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlsplit

from ctrlhost.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}


class Proxy(NamedTuple):
    """A proxy as plain values."""

    scheme: str
    host: str
    port: int
    #: User and password.
    user: tuple[str, str] | None
    #: Headers for the proxy.
    headers: list[tuple[str, str]]

    def __repr__(self) -> str:
        """Return a text without the password and the headers."""
        return f"Proxy({self.scheme}://{self.host}:{self.port})"


def read_proxy(url: str, headers: Mapping[str, Any] | None, source: str) -> Proxy:
    """Return the proxy at `url`, whose user and password are percent-encoded; ConfigError names `source`."""
    if "://" not in url:
        # As in environment variables.
        url = f"http://{url}"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        parts, host, port = urlsplit(""), "", None
    server = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.netloc else url.rpartition("@")[2]
    if parts.scheme in ("socks4", "socks4a"):
        raise ConfigError(f"{source}: the proxy {server} speaks SOCKS 4, which is not supported: use socks5 or socks5h")
    if not host or port == 0 or parts.scheme not in _PORTS:
        raise ConfigError(f"{source}: the proxy's address {server!r} is not an http, https or socks5 URL")
    user = None
    if parts.username is not None:
        user = (unquote(parts.username), unquote(parts.password or ""))
    return Proxy(
        parts.scheme, host, port or _PORTS[parts.scheme], user, [(k, str(v)) for k, v in (headers or {}).items()]
    )


def bypasses_proxy(url: str, rules: str) -> bool:
    """Return whether a rule of `NO_PROXY` covers the host of the server at `url`, as in the official client.

    A rule is a host, domain, `host:port`, IP network or `*`; rules are separated by commas.
    """
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    exact = {"*", host, f"{host}:{parts.port or _PORTS.get(parts.scheme)}"}
    for rule in filter(None, (entry.strip().lower().lstrip(".") for entry in rules.split(","))):
        if rule in exact or host.endswith("." + rule) or _in_network(host, rule):
            return True
    return False


def _in_network(host: str, rule: str) -> bool:
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(rule, strict=False)
    except ValueError:
        return False
