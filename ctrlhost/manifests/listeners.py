"""The listeners of a host in a pod: their settings, addresses and ports."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ctrlhost.errors import ConfigError
from ctrlhost.manifests.names import port_name
from ctrlhost.manifests.webhooks import WEBHOOKS, has_webhooks
from ctrlhost.server.addresses import parse_address

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ctrlhost.config.load import Configuration
    from ctrlhost.manifests.loading import SetUpPlugin

#: Names of ports, which probes, Services and policies refer to.
PROBES, METRICS, STATUS = "probes", "metrics", "status"
#: The host's settings of the addresses, and their values in a pod unless the operator gives others.
SETTINGS = {PROBES: "listen_probes", METRICS: "listen_metrics", STATUS: "listen", WEBHOOKS: "webhook_listen"}
_ADDRESSES = {PROBES: ":8484", METRICS: ":8443", STATUS: "127.0.0.1:8485", WEBHOOKS: ":9443"}
#: Who reaches a port from outside of the pod.
_FROM_OUTSIDE = {PROBES: "kubelet", WEBHOOKS: "API server"}
_AUTHENTICATION, _AUTHENTICATED = "metrics_auth", "kubernetes"
#: All IPv6 and IPv4 addresses, for a plugin's setting of an address.
_ALL_ADDRESSES = "[::]"


@dataclass(frozen=True, slots=True)
class Port:
    """A TCP port that the container listens on; `loopback` if nothing outside of the pod can reach it."""

    name: str
    number: int
    loopback: bool = False
    #: The plugin that serves it; "" for the host.
    plugin: str = ""

    @property
    def declared(self) -> dict[str, Any]:
        """The entry of the container."""
        return {"name": self.name, "containerPort": self.number, "protocol": "TCP"}

    @property
    def served(self) -> dict[str, Any]:
        """The entry of a Service."""
        return {"name": self.name, "port": self.number, "targetPort": self.name, "protocol": "TCP"}


@dataclass(frozen=True, slots=True)
class Listeners:
    """The ports of one container, and the arguments that make the host listen there."""

    ports: tuple[Port, ...]
    arguments: tuple[str, ...]
    #: Whether `/metrics` asks the API server who the client is and what it may do.
    authenticated: bool

    def of(self, name: str) -> Port | None:
        """Return the host's port of this name, if it is served."""
        return next((port for port in self.ports if port.name == name and not port.plugin), None)

    def of_plugins(self) -> list[Port]:
        """Return the ports of plugins that can be reached from outside of the pod."""
        return [port for port in self.ports if port.plugin and not port.loopback]


def listeners(configuration: Configuration, plugins: Sequence[SetUpPlugin]) -> Listeners:
    """Return the listeners of a host with these plugins; ConfigError for addresses that cannot work in a pod."""
    ports: list[Port] = []
    arguments: list[str] = []
    for name, setting in SETTINGS.items():
        if name == WEBHOOKS and not any(map(has_webhooks, plugins)):
            continue
        value = configuration.given("host", setting)
        address = _ADDRESSES[name] if value is None else value.text
        if value is None or not value.kept:
            arguments.append(f"--set=host.{setting}={address}")
        if address:
            ports.append(_port(name, address, f"host.{setting}"))
    for port in ports:
        if port.loopback and (client := _FROM_OUTSIDE.get(port.name)):
            raise ConfigError(
                f"host.{SETTINGS[port.name]}: the {client} cannot reach a loopback address",
                hint=f"write `{_ADDRESSES[port.name]}`",
            )
    value = configuration.given("host", _AUTHENTICATION)
    authentication = _AUTHENTICATED if value is None else value.text
    if any(port.name == METRICS for port in ports) and (value is None or not value.kept):
        arguments.append(f"--set=host.{_AUTHENTICATION}={authentication}")
    for plugin in plugins:
        _add_plugin(plugin, configuration, ports, arguments)
    _check_different(ports)
    return Listeners(
        tuple(ports),
        tuple(arguments),
        authenticated=authentication == _AUTHENTICATED,
    )


def _add_plugin(plugin: SetUpPlugin, configuration: Configuration, ports: list[Port], arguments: list[str]) -> None:
    """Add the listeners of a plugin; on all addresses, if its address is a setting that the operator did not give."""
    opened: set[str] = set()
    for address, _ in plugin.context.listeners:
        setting = plugin.context.address_settings.get(address, "")
        host, port = parse_address(address, f"listener of {plugin.name}")
        if not port:
            # The system chooses a free one at each start.
            continue
        value = configuration.given("plugins", plugin.name, setting) if setting else None
        free = bool(setting) and value is None
        if setting and setting not in opened and (value is None or not value.kept):
            opened.add(setting)
            arguments.append(f"--set={plugin.name}.{setting}={_ALL_ADDRESSES if value is None else value.text}")
        name = port_name(plugin.name, {*SETTINGS, *(known.name for known in ports)})
        ports.append(Port(name, port, not free and _is_loopback(host), plugin.name))


def _port(name: str, address: str, setting: str) -> Port:
    host, number = parse_address(address, setting)
    if not number:
        raise ConfigError(f"{setting}: port 0 cannot be declared", hint="write the number of the port")
    return Port(name, number, _is_loopback(host))


def _check_different(ports: Iterable[Port]) -> None:
    seen: dict[int, Port] = {}
    for port in ports:
        if (other := seen.setdefault(port.number, port)) is not port:
            raise ConfigError(
                f"{_owner(other)} and {_owner(port)} have the same port {port.number}",
                hint="give one of them another port",
            )


def _owner(port: Port) -> str:
    return f"a listener of the plugin `{port.plugin}`" if port.plugin else f"host.{SETTINGS[port.name]}"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
