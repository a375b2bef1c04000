"""What a registration of webhooks uses of its host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ctrlhost.client import Client
    from ctrlhost.config.settings import HostSettings
    from ctrlhost.coordination.leadership import Leadership
    from ctrlhost.informers import InformerFactory
    from ctrlhost.server.key_pairs import KeyPairs
    from ctrlhost.supervisor.runtime import PluginRuntime


class HostParts(Protocol):
    """Its parts; those that are None come with its start."""

    @property
    def settings(self) -> HostSettings:
        """The settings of the host itself."""

    @property
    def plugins(self) -> Sequence[PluginRuntime]:
        """The plugins."""

    @property
    def client(self) -> Client | None:
        """The client of the host."""

    @property
    def factory(self) -> InformerFactory | None:
        """The informers."""

    @property
    def leadership(self) -> Leadership | None:
        """The leader elections, if there are any."""

    @property
    def children(self) -> Any:
        """The processes of isolated plugins, if there are any."""


class Listener(Protocol):
    """The listener of the webhooks."""

    @property
    def address(self) -> str | None:
        """The address, once it serves."""

    @property
    def entries(self) -> Mapping[str, Mapping[str, dict[str, Any]]]:
        """The entries of the configurations by plugin and path; those of conversions are empty."""

    def certify(self, source: KeyPairs) -> None:
        """Serve with the certificates of `source`."""

    def waits(self, reason: str) -> None:
        """Note why there is no certificate yet."""
