"""The spec of a network: validated once more, and completed with the settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from ctrlhost_bitcoin.objects.names import name_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ctrlhost_bitcoin.settings import BitcoinSettings

Readiness = Literal["Cli", "Rest"]
_Nodes = Annotated[int, msgspec.Meta(ge=0, le=100)]
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_Secret = Annotated[str, msgspec.Meta(max_length=253, pattern=rf"^(({_LABEL})(\.{_LABEL})*)?\Z")]
_Image = Annotated[str, msgspec.Meta(pattern=r"^\S+\Z")]
_Args = Annotated[tuple[str, ...], msgspec.Meta(max_length=64)]
_Uid = Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
_Gid = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
_AMOUNT = r"^[0-9]{1,15}(\.[0-9]{1,3})?(m|k|Ki|[MGTPE]i?)?\Z"
_Amount = Annotated[str, msgspec.Meta(pattern=_AMOUNT)] | Annotated[int, msgspec.Meta(ge=0)]
_Amounts = Annotated[dict[str, _Amount], msgspec.Meta(max_length=16)]
_Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]


class Rejected(Exception):
    """Input that the plugin cannot use; `reason` is that of the condition and the event. Never holds a secret value."""

    def __init__(self, reason: str, message: str) -> None:
        """Keep the reason beside the message."""
        super().__init__(message)
        self.reason = reason


class SecurityContext(msgspec.Struct, rename="camel", frozen=True):
    """The identity of the daemons; None leaves it to the image."""

    run_as_user: _Uid | None = None
    run_as_group: _Gid | None = None
    fs_group: _Gid | None = None


class Resources(msgspec.Struct, frozen=True, omit_defaults=True):
    """Requests and limits of the container."""

    requests: _Amounts | None = None
    limits: _Amounts | None = None


class Storage(msgspec.Struct, rename="camel", frozen=True):
    """The claim of each node."""

    size: _Amount
    storage_class_name: Annotated[str, msgspec.Meta(max_length=253)] | None = None
    #: The default is the data directory of root, whom the default image uses.
    mount_path: Annotated[str, msgspec.Meta(pattern=r"^/[^:]*\Z", max_length=512)] = "/root/.bitcoin"


@dataclass(frozen=True, slots=True)
class NetworkSpec:
    """A valid network."""

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
    #: None leaves these to others.
    security: SecurityContext | None
    resources: Resources | None
    storage: Storage | None


class _Spec(msgspec.Struct, rename="camel"):
    """The rules of the CRD's schema; null counts as unset."""

    nodes: _Nodes | None = None
    secret: _Secret | None = None
    image: _Image | None = None
    args: _Args | None = None
    readiness: Readiness | None = None
    rpc_port: _Port | None = None
    p2p_port: _Port | None = None
    security_context: SecurityContext | None = None
    resources: Resources | None = None
    storage: Storage | None = None


# msgspec inspects a type at its first use, which is not safe in two threads at once.
msgspec.json.Decoder(_Spec)


def read_spec(network: Mapping[str, Any], settings: BitcoinSettings) -> NetworkSpec:
    """Read a network; `Rejected` for what the schema would refuse, since objects may be older than the schema."""
    metadata = network["metadata"]
    problem = name_problem(metadata["name"])
    if problem is not None:
        raise Rejected("InvalidName", problem)
    try:
        spec = msgspec.convert(network.get("spec"), _Spec)
    except msgspec.ValidationError as error:
        rule, _, path = str(error).partition(" - at `$")
        raise Rejected("InvalidSpec", f"spec{path.rstrip('`')}: {rule}") from None
    if spec.nodes is None:
        raise Rejected("InvalidSpec", "spec.nodes is missing")
    rpc_port, p2p_port = spec.rpc_port or settings.rpc_port, spec.p2p_port or settings.p2p_port
    if rpc_port == p2p_port:
        raise Rejected("InvalidSpec", f"the RPC port and the P2P port are both {rpc_port}")
    return NetworkSpec(
        name=metadata["name"],
        namespace=metadata.get("namespace") or "",
        nodes=spec.nodes,
        secret=spec.secret or "",
        image=spec.image or settings.default_image,
        args=spec.args,
        readiness=spec.readiness or "Cli",
        rpc_port=rpc_port,
        p2p_port=p2p_port,
        security=spec.security_context,
        resources=spec.resources,
        storage=spec.storage,
    )
