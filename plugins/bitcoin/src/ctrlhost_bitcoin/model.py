"""The custom resource, from which the CRD is generated, and a network as the rest of the plugin uses it."""

# ruff: noqa: N815 - fields are named as on the wire

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

import ctrlhost
from ctrlhost import Column, Rule

if TYPE_CHECKING:
    from ctrlhost_bitcoin.settings import BitcoinSettings

GROUP = "bitcoincontroller.christianb93.github.com"
API_VERSION, KIND = f"{GROUP}/v1", "BitcoinNetwork"

# A pod's label `controller-revision-hash` is the StatefulSet's name and 11 characters, at most 63 in all.
_MAX_NAME = 48
_NAME = "^[a-z]([-a-z0-9]*[a-z0-9])?$"
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_AMOUNT = r"^[0-9]{1,15}(\.[0-9]{1,3})?(m|k|Ki|[MGTPE]i?)?$"

Amount = Annotated[str, Meta(pattern=_AMOUNT)] | Annotated[int, Meta(ge=0)]
Amounts = Annotated[dict[str, Amount], Meta(max_length=16)]
Port = Annotated[int, Meta(ge=1, le=65535)]
Uid = Annotated[int, Meta(ge=1, lt=2**31)]
Gid = Annotated[int, Meta(ge=0, lt=2**31)]


class SecurityContext(msgspec.Struct, frozen=True):
    """Runs the pods with the settings that the pod security level restricted requires."""

    runAsUser: Uid | None = None
    """User of the daemons; default is the image's, which must be a number other than 0."""
    runAsGroup: Gid | None = None
    """Group of the daemons; default is the image's."""
    fsGroup: Gid | None = None
    """Group of the storage's files; default is runAsUser."""


class Resources(msgspec.Struct, frozen=True, omit_defaults=True):
    """Requests and limits of the container."""

    requests: Amounts | None = None
    limits: Amounts | None = None


class Storage(msgspec.Struct, frozen=True):
    """Claim of each node for its data, which outlives the pod and the network. Cannot be changed."""

    size: Amount
    """Size of a claim."""
    storageClassName: Annotated[str, Meta(max_length=253)] | None = None
    """Storage class; default is the cluster's."""
    mountPath: Annotated[str, Meta(pattern="^/[^:]*$", max_length=512)] | None = None
    """Data directory in the container; default is /root/.bitcoin."""


class Spec(msgspec.Struct, frozen=True):
    """The wanted network."""

    nodes: Annotated[int, Meta(ge=0, le=100)]
    """Number of daemons."""
    secret: Annotated[str, Meta(max_length=253, pattern=rf"^(({_LABEL})(\.{_LABEL})*)?$")] | None = None
    """Secret in the same namespace with the daemons' credentials, under the keys BC_RPC_USER and BC_RPC_PASSWORD.
    Without it the daemons use publicly known ones.
    """
    image: Annotated[str, Meta(pattern=r"^\S+$")] | None = None
    """Image of the container; default is the plugin's setting."""
    args: Annotated[list[str], Meta(max_length=64)] | None = None
    """Arguments of the container; default is the image's own."""
    readiness: Literal["Cli", "Rest"] | None = None
    """Readiness probe: Cli runs bitcoin-cli in the container, Rest calls the REST interface, which needs the argument
    -rest. Default is Cli.
    """
    securityContext: SecurityContext | None = None
    resources: Resources | None = None
    storage: Storage | None = None
    """Claim of each node for its data; without it the data is lost with the pod. Cannot be changed."""
    rpcPort: Port | None = None
    """RPC port of the daemons."""
    p2pPort: Port | None = None
    """P2P port of the daemons."""


class NodeStatus(msgspec.Struct, frozen=True):
    """A node that has a pod."""

    ordinal: int
    ready: bool
    ip: str
    nodeName: str
    """Name of the pod."""
    dnsName: str
    """Name that resolves within the namespace."""


class Status(ctrlhost.ModelStatus):
    """The present network."""

    replicas: int | None = None
    """Number of pods."""
    readyReplicas: int | None = None
    """Number of ready nodes."""
    selector: str | None = None
    """Selector of the pods, for the scale subresource."""
    nodes: list[NodeStatus] | None = None
    """Nodes that have a pod, by ordinal."""


@ctrlhost.resource(
    API_VERSION,
    short_names=["btcnet"],
    categories=["ctrlhost"],
    scale=(".spec.nodes", ".status.replicas", ".status.selector"),
    rules=[
        Rule(
            f"self.metadata.name.size() <= {_MAX_NAME} && self.metadata.name.matches('{_NAME}')",
            message=f"metadata.name must be a DNS label of at most {_MAX_NAME} characters that begins with a letter",
        ),
        Rule(
            "has(self.spec.storage) == has(oldSelf.spec.storage)"
            " && (!has(self.spec.storage) || self.spec.storage == oldSelf.spec.storage)",
            message="spec.storage cannot be changed, since a StatefulSet keeps its claims",
        ),
    ],
    columns=[
        Column("Desired", ".spec.nodes", "integer"),
        Column("Ready", ".status.readyReplicas", "integer"),
        Column("Mesh", '.status.conditions[?(@.type=="MeshConverged")].status'),
        Column("Secret", ".spec.secret", priority=1),
        Column("Age", ".metadata.creationTimestamp", "date"),
    ],
)
class BitcoinNetwork(ctrlhost.Model[Spec, Status]):
    """A private regtest network of bitcoin daemons that are connected to each other."""


class Rejected(Exception):
    """Input that the plugin cannot use; `reason` is that of the condition and the event. Never holds a secret value."""

    def __init__(self, reason: str, message: str) -> None:
        """Keep the reason beside the message."""
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Network:
    """A valid network, completed with the settings."""

    name: str
    namespace: str
    nodes: int
    #: Empty for the well-known credentials.
    secret: str
    image: str
    rpc_port: int
    p2p_port: int
    spec: Spec


def check_name(name: str) -> None:
    """Raise `Rejected` for the name of a network that cannot work, since objects may be older than the rules."""
    if len(name) > _MAX_NAME:
        raise Rejected("InvalidName", f"the name `{name}` is longer than {_MAX_NAME} characters")
    if not re.fullmatch(_NAME, name):
        raise Rejected("InvalidName", f"invalid name `{name}`: must be a DNS label that begins with a letter")


def completed(network: BitcoinNetwork, settings: BitcoinSettings) -> Network:
    """Return a network with the settings where its spec says nothing; `Rejected` if its ports are one."""
    spec = network.spec
    rpc_port, p2p_port = spec.rpcPort or settings.rpc_port, spec.p2pPort or settings.p2p_port
    if rpc_port == p2p_port:
        raise Rejected("InvalidSpec", f"the RPC port and the P2P port are both {rpc_port}")
    return Network(
        name=network.metadata.name,
        namespace=network.metadata.namespace,
        nodes=spec.nodes,
        secret=spec.secret or "",
        image=spec.image or settings.default_image,
        rpc_port=rpc_port,
        p2p_port=p2p_port,
        spec=spec,
    )
