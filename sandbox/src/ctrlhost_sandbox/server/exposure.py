"""Checks of the address that the sandbox listens on, and of access without a token."""

from __future__ import annotations

import ipaddress

from ctrlhost_sandbox.errors import SandboxError


def check_exposure(address: str, *, expose: bool, insecure_http: bool, rbac: bool) -> None:
    """Raise SandboxError for a non-loopback address without `expose`, and for RBAC without TLS."""
    if insecure_http and rbac:
        raise SandboxError("RBAC needs authentication, and without TLS there are no tokens")
    try:
        loopback = ipaddress.ip_address(address).is_loopback
    except ValueError as error:
        raise SandboxError(f"the sandbox's address must be an IP address, got {address!r}") from error
    if not loopback and (insecure_http or not expose):
        raise SandboxError(f"the sandbox listens on loopback addresses only, not on {address}")


def hosts(address: str, port: int) -> tuple[str, frozenset[str]]:
    """Return the host in URLs, and all names that the host of a request may have, with any port."""
    host = f"[{address}]" if ":" in address else address
    return f"{host}:{port}", frozenset((host, "127.0.0.1", "localhost", "[::1]"))
