"""A kind with a status, its struct, and what the server has received about it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

import ctrlhost
from ctrlhost.client import Client

if TYPE_CHECKING:
    from ctrlhost_sandbox import AuditRecord

    from ctrlhost.testing import HostUnderTest

API_VERSION = "cache.example.com/v1alpha1"
NAME = "demo/memcached"


class Spec(msgspec.Struct, frozen=True):
    size: int = 1


class Status(ctrlhost.ModelStatus):
    readyReplicas: int = 0  # noqa: N815 - Kubernetes' name
    phase: str = ""


@ctrlhost.resource(API_VERSION)
class Memcached(ctrlhost.Model[Spec, Status], frozen=True):
    """A set of memcached servers."""


def new_plugin(*crds: str) -> ctrlhost.Plugin[None]:
    """Return a plugin with the CRDs of these files, which are beside this one."""
    plugin = ctrlhost.Plugin(crds=crds)
    plugin.__name__ = "demo"
    return plugin


def memcached(name: str = "cache", size: int = 1, **metadata: Any) -> dict[str, Any]:
    named = {"name": name, "namespace": "default", **metadata}
    return {"apiVersion": API_VERSION, "kind": "Memcached", "metadata": named, "spec": {"size": size}}


class Cache:
    """The object `cache` of a host with least privilege, changed and read by an administrator."""

    def __init__(self, host: HostUnderTest) -> None:
        self.host = host
        self.client: Client = host.client

    def create(self, **metadata: Any) -> None:
        self.client.create(memcached(**metadata))
        self.host.run_until_idle()

    def get(self) -> dict[str, Any]:
        return self.client.get(API_VERSION, "Memcached", "cache", "default")

    def find(self) -> dict[str, Any] | None:
        return self.client.find(API_VERSION, "Memcached", "cache", "default")

    @property
    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.get().get("status", {})
        return status

    def patch(self, patch: dict[str, Any], subresource: str | None = None) -> dict[str, Any]:
        return self.client.patch(API_VERSION, "Memcached", "cache", "default", patch, subresource=subresource)

    def resize(self, size: int) -> None:
        """Change the spec, so that the controller runs."""
        self.patch({"spec": {"size": size}})
        self.host.run_until_idle()

    def delete(self) -> None:
        self.client.delete(API_VERSION, "Memcached", "cache", "default")

    def run(self) -> None:
        """Run the controller once for the object."""
        self.host.controllers[NAME].queue.add(ctrlhost.Request("cache", "default"))
        self.host.run_until_idle()

    @property
    def counts(self) -> Any:
        return self.host.controllers[NAME].counts.total()  # type: ignore[union-attr]

    def patches(self, subresource: str = "") -> list[dict[str, Any]]:
        """Return the bodies of the plugin's patches that the server has received, oldest first."""
        return [json.loads(record.body) for record in self._received() if record.subresource == subresource]

    def codes(self, subresource: str = "") -> list[int]:
        """Return the answers to them."""
        return [record.code for record in self._received() if record.subresource == subresource]

    def _received(self) -> list[AuditRecord]:
        return [
            record
            for record in self.host.sandbox.audit
            if record.resource == "memcacheds"
            and record.verb == "patch"
            and record.user.startswith("system:serviceaccount:")
        ]
