"""To whom the sandbox may be open: the address it listens on, and whether anybody is asked for a token."""

from __future__ import annotations

import ipaddress

from ctrlhost.errors import ConfigError


def check_exposure(address: str, *, expose: bool, insecure_http: bool, rbac: bool) -> None:
    """Refuse an address that others reach unless `expose` allows it, and RBAC where nobody is known: ConfigError."""
    if insecure_http and rbac:
        raise ConfigError("RBAC needs to know who asks, and without TLS nobody is asked for a token")
    try:
        loopback = ipaddress.ip_address(address).is_loopback
    except ValueError as error:
        raise ConfigError(f"the sandbox's address must be an IP address, not {address!r}") from error
    if not loopback and (insecure_http or not expose):
        raise ConfigError(f"the sandbox listens on loopback addresses only, not on {address}")


def hosts(address: str, port: int) -> tuple[str, frozenset[str]]:
    """Return the host that URLs name, and all those that a request may name."""
    shown = f"[{address}]" if ":" in address else address
    return f"{shown}:{port}", frozenset(f"{name}:{port}" for name in (shown, "127.0.0.1", "localhost", "[::1]"))
