"""Printed manifests: what to print them for, and parts of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Manifest = dict[str, Any]
Printed = Callable[..., list[Manifest]]

#: Has a listener with a setting for its address, one without, and two further settings.
SERVER = """
    import msgspec

    import ctrlhost

    class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="kebab", forbid_unknown_fields=True):
        address: str = "127.0.0.1"
        port: int = 9100
        token: ctrlhost.Secret = ctrlhost.Secret()
        password: ctrlhost.Secret = ctrlhost.Secret()

    @ctrlhost.hookimpl
    def ctrlhost_settings():
        return Settings

    @ctrlhost.hookimpl
    def ctrlhost_setup(plugin):
        settings = plugin.settings
        plugin.add_listener(f"{settings.address}:{settings.port}", None, address_setting="address")
        plugin.add_listener("127.0.0.1:9200", None)
        plugin.add_listener("127.0.0.1:0", None)
"""


def of_kind(manifests: list[Manifest], kind: str) -> list[Manifest]:
    """Return the manifests of a kind."""
    return [manifest for manifest in manifests if manifest["kind"] == kind]


def template(manifests: list[Manifest]) -> Manifest:
    """Return the template of the only Deployment."""
    (deployment,) = of_kind(manifests, "Deployment")
    pod: Manifest = deployment["spec"]["template"]
    return pod


def container(manifests: list[Manifest]) -> Manifest:
    """Return the container of the only Deployment."""
    (only,) = template(manifests)["spec"]["containers"]
    return dict(only)
