"""What a network is asked to be: its spec, checked once more, and with the settings filled in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ctrlhost_bitcoin.objects.names import name_problem

if TYPE_CHECKING:
    from ctrlhost_bitcoin.settings import BitcoinSettings

Readiness = Literal["Cli", "Rest"]

MOST_NODES = 100
_MOST_ARGS = 64
_LONGEST_SECRET = 253
_SECRET = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class Invalid(Exception):
    """The network can not be made; an edit of it is needed. `reason` is the condition's and the event's."""

    def __init__(self, reason: str, message: str) -> None:
        """Keep both."""
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class NetworkSpec:
    """A network that can be made."""

    name: str
    namespace: str
    nodes: int
    #: Empty for the well-known credentials.
    secret: str
    image: str
    #: None leaves the arguments to the image.
    args: tuple[str, ...] | None
    readiness: Readiness
    rpc_port: int
    p2p_port: int


def read_spec(network: Mapping[str, Any], settings: BitcoinSettings) -> NetworkSpec:
    """Read a network; `Invalid` for what the schema would refuse, as objects may be older than the schema."""
    metadata, spec = network["metadata"], network.get("spec")
    problem = name_problem(metadata["name"])
    if problem is not None:
        raise Invalid("InvalidName", problem)
    if not isinstance(spec, Mapping):
        raise Invalid("InvalidSpec", "spec is missing")
    nodes = _whole(spec, "nodes", 0, MOST_NODES)
    if nodes is None:
        raise Invalid("InvalidSpec", "spec.nodes is missing")
    rpc_port = _whole(spec, "rpcPort", 1, 65535) or settings.rpc_port
    p2p_port = _whole(spec, "p2pPort", 1, 65535) or settings.p2p_port
    if rpc_port == p2p_port:
        raise Invalid("InvalidSpec", f"the RPC port and the P2P port are both {rpc_port}")
    return NetworkSpec(
        name=metadata["name"],
        namespace=metadata.get("namespace") or "",
        nodes=nodes,
        secret=_secret(spec),
        image=_image(spec) or settings.default_image,
        args=_args(spec),
        readiness=_readiness(spec),
        rpc_port=rpc_port,
        p2p_port=p2p_port,
    )


def _whole(spec: Mapping[str, Any], field: str, least: int, most: int) -> int | None:
    value = spec.get(field)
    if value is None:
        return None
    if type(value) is not int:
        raise Invalid("InvalidSpec", f"spec.{field} is no whole number")
    if not least <= value <= most:
        raise Invalid("InvalidSpec", f"spec.{field} is {value}, which is not from {least} to {most}")
    return value


def _secret(spec: Mapping[str, Any]) -> str:
    value = spec.get("secret")
    if value is None or value == "":
        return ""
    if not isinstance(value, str) or len(value) > _LONGEST_SECRET or not _SECRET.fullmatch(value):
        raise Invalid("InvalidSpec", "spec.secret is no name of a Secret")
    return value


def _image(spec: Mapping[str, Any]) -> str | None:
    value = spec.get("image")
    if value is None:
        return None
    if not isinstance(value, str) or not value or re.search(r"\s", value):
        raise Invalid("InvalidSpec", "spec.image is empty, or has white space in it")
    return value


def _args(spec: Mapping[str, Any]) -> tuple[str, ...] | None:
    value = spec.get("args")
    if value is None:
        return None
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(each, str) for each in value):
        raise Invalid("InvalidSpec", "spec.args is no list of texts")
    if len(value) > _MOST_ARGS:
        raise Invalid("InvalidSpec", f"spec.args has more than {_MOST_ARGS} items")
    return tuple(value)


def _readiness(spec: Mapping[str, Any]) -> Readiness:
    value = spec.get("readiness")
    if value is None:
        return "Cli"
    if value not in ("Cli", "Rest"):
        raise Invalid("InvalidSpec", "spec.readiness is neither Cli nor Rest")
    found: Readiness = value
    return found
